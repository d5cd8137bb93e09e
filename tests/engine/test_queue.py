"""The rule of the line, by itself: fair, deterministic, and it says for what a run waits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from jtrain.engine.queue import DeviceStatus, Start, Ticket, Wait, decide

NOW = 1000.0


def slots(*holders: str, kind: str = "CPU", label: str = "CPU slot") -> list[DeviceStatus]:
    """Devices by number; a name in place of "" is who holds it."""
    return [
        DeviceStatus(f"{kind}-{number}", f"{label} {number}", "exclusive" if holder else "free", holder)
        for number, holder in enumerate(holders)
    ]


def gpus(*holders: str) -> list[DeviceStatus]:
    return slots(*holders, kind="GPU", label="GPU")


def ticket(run_id: str, since: float, count: int = 1, of: int | Sequence[str] = 4, **more: Any) -> Ticket:
    kind = more.pop("kind", "cpu")
    names = tuple(f"{kind.upper()}-{number}" for number in range(of)) if isinstance(of, int) else tuple(of)
    fields = {"minimum": count, "seen": NOW} | more
    return Ticket(run_id=run_id, since=since, kind=kind, count=count, candidates=names, **fields)


def answer(me: Ticket, devices: list[DeviceStatus], *others: Ticket) -> Start | Wait:
    return decide([me, *others], devices, me, NOW)


def test_a_run_alone_starts_on_the_first_free_devices() -> None:
    assert answer(ticket("a", 1, 2), slots("x", "", "", "")) == Start(("CPU-1", "CPU-2"))


def test_the_first_to_come_takes_its_devices_before_the_next_looks() -> None:
    first, second = ticket("first", 1, 2), ticket("second", 2, 2)
    devices = slots("", "", "", "")
    assert answer(second, devices, first) == Start(("CPU-2", "CPU-3"))
    assert answer(first, devices, second) == Start(("CPU-0", "CPU-1"))


def test_runs_that_came_at_the_same_time_go_by_their_ids() -> None:
    a, b = ticket("a", 1, 3), ticket("b", 1, 3)
    assert isinstance(answer(a, slots("", "", "", ""), b), Start)
    assert isinstance(answer(b, slots("", "", "", ""), a), Wait)


def test_a_big_request_is_not_overtaken_by_small_ones() -> None:
    big, small = ticket("big", 1, 4), ticket("small", 2, 1)
    assert isinstance(answer(big, slots("x", "", "", ""), small), Wait)
    assert answer(small, slots("x", "", "", ""), big) == Wait(
        "waiting for 1 CPU slot: 3 of 4 are free; held by x; 1 run ahead: big", 1
    )


def test_a_higher_priority_goes_before_who_came_first() -> None:
    early = ticket("early", 1, 3)
    urgent = ticket("urgent", 2, 3).model_copy(update={"priority": 5})
    assert isinstance(answer(urgent, slots("", "", "", ""), early), Start)
    assert isinstance(answer(early, slots("", "", "", ""), urgent), Wait)


def test_runs_that_want_other_devices_pass() -> None:
    big = ticket("big", 1, 4)
    on_gpu = ticket("gpu", 2, 1, of=2, kind="gpu")
    assert answer(on_gpu, slots("x", "", "", "") + gpus("", ""), big) == Start(("GPU-0",))
    waits_for_0 = ticket("zero", 1, 1, of=["GPU-0"], kind="gpu", is_exact=True)
    wants_1 = ticket("one", 2, 1, of=["GPU-1"], kind="gpu", is_exact=True)
    assert answer(wants_1, gpus("x", ""), waits_for_0) == Start(("GPU-1",))


def test_a_run_that_sees_few_devices_knows_what_others_may_take_elsewhere() -> None:
    sees_all = ticket("all", 1, 2, of=4, kind="gpu")
    sees_last = ticket("last", 2, 1, of=["GPU-3"], kind="gpu")
    assert answer(sees_last, gpus("", "", "", ""), sees_all) == Start(("GPU-3",))


def test_auto_takes_every_free_device_and_waits_for_the_first() -> None:
    auto = ticket("auto", 1, 4, kind="gpu", minimum=1)
    assert answer(auto, gpus("", "x", "", "x")) == Start(("GPU-0", "GPU-2"))
    assert answer(auto, gpus("x", "x", "y", "x")) == Wait("waiting for a free GPU: none of 4 is free; held by x, y")


def test_an_exact_choice_is_given_in_its_own_order() -> None:
    exact = ticket("a", 1, 2, of=["GPU-2", "GPU-0"], kind="gpu", is_exact=True)
    assert answer(exact, gpus("", "x", "")) == Start(("GPU-2", "GPU-0"))
    assert answer(exact, gpus("", "", "y")) == Wait("waiting for GPU 2 and GPU 0: held by y")


def used(number: int, use: str, *, is_broken: bool = False) -> DeviceStatus:
    return DeviceStatus(f"GPU-{number}", f"GPU {number}", use=use, is_broken=is_broken)


def test_a_gpu_that_others_use_is_avoided_unless_it_was_chosen() -> None:
    devices = [used(0, "used by python (pid 3, ana)"), *gpus("", "")[1:]]
    assert answer(ticket("a", 1, 1, of=2, kind="gpu"), devices) == Start(("GPU-1",))
    assert answer(ticket("a", 1, 1, of=["GPU-0"], kind="gpu", is_exact=True), devices) == Start(("GPU-0",))
    assert answer(ticket("a", 1, 2, of=2, kind="gpu"), devices) == Wait(
        "waiting for 2 GPUs: 1 of 2 is free; GPU 0 is used by python (pid 3, ana)"
    )


def test_what_outsiders_use_holds_nobody_back() -> None:
    devices = [used(0, "used by a game"), *gpus("", "")[1:]]
    wants_both, wants_one = ticket("both", 1, 2, of=2, kind="gpu"), ticket("one", 2, 1, of=2, kind="gpu")
    assert answer(wants_one, devices, wants_both) == Start(("GPU-1",))


def test_a_broken_gpu_is_never_taken_even_if_chosen() -> None:
    devices = [used(0, "out of order (fallen off the bus)", is_broken=True), *gpus("", "")[1:]]
    chosen = ticket("a", 1, 1, of=["GPU-0"], kind="gpu", is_exact=True)
    assert answer(chosen, devices) == Wait("waiting for GPU 0: GPU 0 is out of order (fallen off the bus)")
    assert answer(ticket("b", 2, 2, of=2, kind="gpu", minimum=1), devices, chosen) == Start(("GPU-1",))


def test_a_ticket_whose_supervisor_sleeps_holds_nobody_back() -> None:
    asleep = ticket("asleep", 1, 4, seen=NOW - 120)
    assert isinstance(answer(ticket("awake", 2, 1), slots("x", "", "", ""), asleep), Start)


def shared(number: int, holder: str = "x") -> DeviceStatus:
    return DeviceStatus(f"GPU-{number}", f"GPU {number}", "shared", holder)


def test_runs_that_share_stand_together_and_prefer_an_empty_device() -> None:
    sharing = ticket("a", 1, 1, of=2, kind="gpu", is_shared=True)
    assert answer(sharing, [shared(0), *gpus("", "")[1:]]) == Start(("GPU-1",))
    assert answer(sharing, [shared(0), *gpus("", "y")[1:]]) == Start(("GPU-0",))
    assert isinstance(answer(ticket("b", 1, 2, of=2, kind="gpu"), [shared(0), *gpus("", "")[1:]]), Wait)


def test_sharing_runs_do_not_overtake_one_that_waits_for_the_whole_device() -> None:
    whole = ticket("whole", 1, 1, of=1, kind="gpu")
    sharing = ticket("sharing", 2, 1, of=1, kind="gpu", is_shared=True)
    assert isinstance(answer(whole, [shared(0)], sharing), Wait)
    assert isinstance(answer(sharing, [shared(0)], whole), Wait)


def test_many_runs_are_counted_rather_than_listed() -> None:
    ahead = [ticket(f"run-{number}", number, 1) for number in range(6)]
    decision = answer(ticket("me", 9, 2), slots("a", "b", "c", "d"), *ahead)
    assert decision == Wait(
        "waiting for 2 CPU slots: none of 4 is free; held by a, b, c and 1 more; "
        "6 runs ahead: run-0, run-1, run-2 and 3 more",
        6,
    )


def test_a_holder_without_a_name_is_another_run() -> None:
    device = DeviceStatus("CPU-0", "CPU slot 0", "exclusive")
    assert "held by another run" in str(answer(ticket("a", 1, 1, of=1), [device]))


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "../../etc/passwd"},
        {"run_id": "a" * 100},
        {"run_id": "<b>"},
        {"since": float("nan")},
        {"since": -1},
        {"count": 0},
        {"count": 3},
        {"count": 10**9},
        {"minimum": 2, "count": 1},
        {"candidates": ["CPU-0", "CPU-0"]},
        {"candidates": []},
        {"candidates": ["CPU-0\n; rm", "CPU-1"]},
        {"candidates": ["disk-0", "CPU-1"]},
        {"kind": "tpu"},
        {"nonce": "/"},
        {"tag": "t" * 1000},
        {"expected_hours": -1},
        {"is_exact": True, "count": 1},
    ],
)
def test_a_ticket_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    good = {"run_id": "a", "since": 1.0, "kind": "cpu", "count": 1, "minimum": 1, "candidates": ["CPU-0", "CPU-1"]}
    Ticket.model_validate(good)
    with pytest.raises(ValidationError):
        Ticket.model_validate(good | change)


def test_a_ticket_of_a_later_version_with_new_fields_is_understood() -> None:
    later = ticket("a", 1, 1).model_dump() | {"rule": 7, "mood": "good"}
    assert Ticket.model_validate(later).rule == 7


class World:
    """Runs that come, wait, run for a while and end; every waiting one decides for itself at each tick."""

    def __init__(self, seed: int, num_devices: int = 4) -> None:
        self.rng = random.Random(seed)
        self.num_devices = num_devices
        self.held: dict[str, tuple[str, int]] = {}  # device to run and end
        self.waiting: list[Ticket] = []
        self.started: dict[str, int] = {}
        self.came: dict[str, int] = {}

    def come(self, tick: int) -> None:
        count = self.rng.randint(1, self.num_devices)
        run_id = f"run-{len(self.came)}"
        minimum = self.rng.choice([count, count, 1])
        names = [f"GPU-{number}" for number in range(self.num_devices)]
        chosen: int | list[str] = self.num_devices
        if self.rng.random() < 0.3:
            chosen, minimum = self.rng.sample(names, count), count
        is_exact = isinstance(chosen, list)
        new = ticket(run_id, tick, count, of=chosen, kind="gpu", minimum=minimum, is_exact=is_exact)
        self.waiting.append(new)
        self.came[run_id] = tick

    def devices(self) -> list[DeviceStatus]:
        return gpus(*(self.held.get(f"GPU-{number}", ("", 0))[0] for number in range(self.num_devices)))

    def tick(self, tick: int) -> None:
        self.held = {uuid: lease for uuid, lease in self.held.items() if lease[1] > tick}
        devices, tickets = self.devices(), list(self.waiting)
        # Everybody decides on the same facts, before anybody has acted on them.
        decisions = {}
        for me in tickets:
            seen = self.rng.sample(tickets, len(tickets))
            decisions[me.run_id] = decide(seen, devices, me, NOW)
            assert decisions[me.run_id] == decide(tickets, devices, me, NOW)
        for me in tickets:
            decision = decisions[me.run_id]
            if isinstance(decision, Start):
                assert me.minimum <= len(decision.devices) <= me.count
                end = tick + self.rng.randint(1, 6)
                for uuid in decision.devices:
                    assert uuid not in self.held, "two runs on one device"
                    assert uuid in me.candidates
                    self.held[uuid] = (me.run_id, end)
                self.waiting.remove(me)
                self.started[me.run_id] = tick


def overloaded(seed: int) -> World:
    """A machine to which more runs come than it can do, so that there is always a line, and that then works it off."""
    world = World(seed)
    for tick in range(200):
        if len(world.waiting) < 10 and world.rng.random() < 0.7:
            world.come(tick)
        world.tick(tick)
    for tick in range(200, 400):
        world.tick(tick)
    return world


@pytest.mark.parametrize("seed", range(20))
def test_never_two_runs_on_a_device_and_every_run_starts_some_time(seed: int) -> None:
    world = overloaded(seed)
    assert world.waiting == []
    assert len(world.started) == len(world.came) > 50


@pytest.mark.parametrize("seed", range(20))
def test_a_run_waits_only_for_those_that_came_before_it(seed: int) -> None:
    world = overloaded(seed)
    order = sorted(world.started, key=lambda run_id: (world.came[run_id], run_id))
    starts = [world.started[run_id] for run_id in order]
    for number in range(len(order)):
        # Once all before it have started, it waits for what runs then, which lasts 6 ticks at most.
        last_before = max([world.came[order[number]], *starts[:number]])
        assert starts[number] <= last_before + 6
