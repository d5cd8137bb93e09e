"""The machine's devices with a driver that has its quirks, while somebody looks and while nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.server.conftest import Server, Socket

pytestmark = pytest.mark.timeout(90)
GPU = {"name": "Fake H200", "load": 37, "memory_used": 5, "memory_total": 100, "temperature": 50, "power": 90.5}
Connect = Callable[[], Socket]


@pytest.fixture(autouse=True)
def usual_gpus_afterwards(server: Server) -> Iterator[None]:
    time.sleep(0.6)  # a reading serves everybody for half a second
    yield
    server.show_gpus()


def test_readings_that_a_gpu_does_not_give_are_null_with_their_reason(server: Server, connect: Connect) -> None:
    server.show_gpus(GPU | {"power_error": "NVML_ERROR_NOT_SUPPORTED", "processes_error": "NVML_ERROR_NO_PERMISSION"})
    socket = connect()
    socket.wish(machine=True)
    device = socket.type("machine")["machine"]["devices"][0]
    assert (device["power_watts"], device["load_percent"], device["memory_total_bytes"]) == (None, 37, 100)
    assert list(device["reasons"]) == ["power_watts"]
    assert (device["is_simulated"], device["is_lost"], device["processes"], device["owner"]) == (True, False, [], "")


def test_a_gpu_that_is_lost_while_it_is_watched_says_so_and_the_other_stays_live(
    server: Server, connect: Connect
) -> None:
    server.show_gpus(GPU, GPU)
    socket = connect()
    socket.wish(machine=True)
    lost = socket.type("machine")["machine"]["devices"][0]["uuid"]
    server.show_gpus({"error": "NVML_ERROR_GPU_IS_LOST"}, GPU | {"load": 99})

    def rows(message: dict) -> dict:  # type: ignore[type-arg]
        return {row["uuid"]: row for row in message["machine"]["devices"]} if message["type"] == "machine" else {}

    message = socket.until(lambda message: rows(message).get(lost, {}).get("is_lost", False))
    assert {row["load_percent"] for row in rows(message).values()} == {None, 99}
    socket.until(lambda message: message["type"] == "machine")


def test_slices_are_told_with_what_is_known_of_them(server: Server, connect: Connect) -> None:
    server.show_gpus(GPU | {"slices": [{"memory_used": 5, "memory_total": 10}, None]}, GPU)
    devices = server.get("machine")["devices"]
    assert sorted(device["kind"] for device in devices) == ["gpu", "mig"]
    part = next(device for device in devices if device["kind"] == "mig")
    assert (part["memory_used_bytes"], part["memory_total_bytes"]) == (5, 10)


def test_a_driver_that_fails_leaves_the_host_and_an_explanation(server: Server, connect: Connect) -> None:
    server.show_gpus(error="NVML_ERROR_DRIVER_NOT_LOADED")
    socket = connect()
    socket.wish(machine=True)
    state = socket.type("machine")["machine"]
    assert state["devices"] == []
    assert state["explanation"]
    assert state["host"]["memory_total_bytes"] > 0


def test_history_comes_once_and_covers_what_was_sampled_for_others(server: Server, connect: Connect) -> None:
    first = connect()
    first.wish(machine=True)
    first.type("machine")
    first.type("machine")
    second = connect()
    second.wish(machine=True)
    message = second.type("machine")
    assert len(message["history"]["times"]) >= 2
    assert all(len(loads) == len(message["history"]["times"]) for loads in message["history"]["load_percent"].values())
    assert second.type("machine")["history"] is None


def test_a_server_that_nobody_looks_at_does_nothing(server: Server, connect: Connect) -> None:
    socket = connect()
    socket.wish(machine=True, runs=True)
    socket.type("machine")
    socket.close()
    process = psutil.Process(server.process.pid)
    time.sleep(1.0)
    before, switches = process.cpu_times(), process.num_ctx_switches()
    time.sleep(3.0)
    after = process.cpu_times()
    assert (after.user + after.system) - (before.user + before.system) <= 0.05
    assert process.num_ctx_switches().voluntary - switches.voluntary < 30
