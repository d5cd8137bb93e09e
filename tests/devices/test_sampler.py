"""Samples of the whole machine, and the thread that records them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jtrain.devices.best import BestSource
from jtrain.devices.processes import ProcessNames, find_descendants
from jtrain.devices.sampler import Sampler, SampleThread, visible_devices
from jtrain.devices.sources import SourceError, unread_sample
from jtrain.domain.devices import Device, DeviceSample, Sample
from tests.devices.conftest import SetProgram, SetState

GPU: dict[str, Any] = {"load": 40, "memory_used": 5, "memory_total": 10, "temperature": 51, "power": 90}
SPIN = "import time\nprint(flush=True)\nwhile True: pass"


def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # pytest's own time limit ends it
        time.sleep(0.02)


def test_importing_the_sampler_loads_no_driver_and_nothing_heavy() -> None:
    program = (
        "import sys, jtrain.devices.sampler; print(sorted({'pynvml', 'GPUtil', 'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_without_any_gpu_cpu_and_memory_are_still_read(fake_smi: SetProgram, tmp_path: Path) -> None:
    fake_smi("echo 'NVIDIA-SMI has failed'; exit 9")
    sampler = Sampler(tmp_path)
    sample = sampler.sample()
    assert sample.devices == ()
    assert (sample.host.memory_total_bytes.value or 0) > 0
    report = " ".join(sampler.source_report())
    assert "No GPU can be seen" in report
    assert "libnvidia-ml.so.1 is not there" in report
    assert "NVIDIA-SMI has failed" in report


def test_nvidia_smi_serves_where_nvml_can_not(fake_smi: SetProgram) -> None:
    fake_smi("echo '0, GPU-aaaa, 37, 16384, 1024, 15360, 550.54, Tesla T4, 123, Disabled, Disabled, 61'")
    sampler = Sampler()
    assert [gpu.load_percent.value for gpu in sampler.sample().devices] == [37]
    assert "nvidia-smi (GPUtil)" in " ".join(sampler.source_report())


def test_nvml_comes_before_nvidia_smi(fake_smi: SetProgram, simulate: SetState, tmp_path: Path) -> None:
    fake_smi(f"touch '{tmp_path}/was-run'")
    simulate(GPU)
    assert [gpu.load_percent.value for gpu in Sampler().sample().devices] == [40]
    assert not (tmp_path / "was-run").exists()


def test_only_visible_devices_may_be_used_and_keep_their_names(
    simulate: SetState, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(GPU, GPU, GPU, GPU)
    assert [device.label for device in visible_devices({})] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert [device.label for device in visible_devices()] == ["GPU 2", "GPU 3"]
    assert len(Sampler().sample().devices) == 4
    assert "GPU 2, GPU 3" in " ".join(Sampler().source_report())


def test_workers_are_sampled_with_their_gpu_memory(simulate: SetState) -> None:
    pid = os.getpid()
    simulate(*(GPU | {"processes": [{"pid": pid, "memory": memory}]} for memory in (3, 4)))
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a rank that nobody has reaped yet
    sampler = Sampler(pids={1: ended.pid, 0: pid})
    rank_0, rank_1 = sampler.sample().workers
    assert (rank_0.rank, rank_0.pid, rank_0.gpu_memory_bytes.value) == (0, pid, 7)
    assert (rank_0.memory_bytes.value or 0) > 0
    assert "two readings" in (rank_0.cpu_percent.reason or "")
    assert rank_1.memory_bytes.reason == "the process has ended"
    ended.wait()


def test_gpu_memory_of_a_process_that_is_not_listed_is_missing_and_not_0(simulate: SetState) -> None:
    simulate(GPU)
    [worker] = Sampler(pids={0: os.getpid()}).sample().workers
    assert worker.gpu_memory_bytes.value is None
    assert "lists no GPU memory" in (worker.gpu_memory_bytes.reason or "")


def test_cpu_use_of_a_rank_includes_its_children() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    children = find_descendants({parent.pid})[parent.pid]
    try:
        sampler = Sampler(pids={0: parent.pid})
        sampler.sample()

        def has_used_cpu() -> bool:
            return (sampler.sample().workers[0].cpu_percent.value or 0) > 0

        wait_until(has_used_cpu)
        assert len(children) == 1
    finally:
        for process in children:
            process.kill()
        parent.kill()
        parent.communicate()


class Broken:
    """A source whose driver does something nobody expects."""

    def __init__(self, failure: Exception) -> None:
        self.failure: Exception | None = failure
        self.opened = 0

    def open(self) -> None:
        self.opened += 1

    def devices(self) -> list[Device]:
        return []

    def read(self, names: ProcessNames) -> list[DeviceSample]:
        if self.failure is not None:
            raise self.failure
        return [unread_sample("GPU-1", "-")]

    def describe(self) -> list[str]:
        return ["it works"]

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("failure", [SourceError("gone"), ZeroDivisionError("odd"), OSError("bad"), RuntimeError("x")])
def test_no_failure_of_a_source_comes_through_and_it_is_tried_again_later(failure: Exception) -> None:
    now = 0.0
    source = Broken(failure)
    best = BestSource([("a driver", source)], clock=lambda: now)
    source.failure = None
    assert [gpu.uuid for gpu in best.read(ProcessNames())] == ["GPU-1"]
    source.failure = failure
    [silent] = best.read(ProcessNames())
    assert (silent.uuid, silent.load_percent.value) == ("GPU-1", None)
    assert str(failure) in (silent.load_percent.reason or "")
    assert str(failure) in " ".join(best.describe())
    opened, source.failure = source.opened, None
    best.read(ProcessNames())
    assert source.opened == opened
    now += 61.0
    assert best.describe() == ["it works"]


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_the_thread_records_samples_that_can_be_read_back(simulate: SetState, tmp_path: Path) -> None:
    simulate(GPU)
    path = tmp_path / "samples.jsonl"
    thread = SampleThread(path, interval_s=0.02, pids={0: os.getpid()})
    thread.start()
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= 4)
    assert thread.stop()
    samples = [Sample.from_json(json.loads(line)) for line in path.read_text().splitlines()]
    assert [sample.devices[0].load_percent.value for sample in samples] == [40] * len(samples)
    assert [sample.time for sample in samples] == sorted({sample.time for sample in samples})
    assert thread.num_lost == 0


def test_samples_are_due_on_a_grid_and_late_ones_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    taken: list[float] = []
    durations = iter([0.25, 0.0, 1.5, 0.0, 0.0])
    thread = SampleThread(tmp_path / "samples.jsonl", interval_s=0.5)

    def take(self: SampleThread) -> None:
        taken.append(clock[0])
        clock[0] += next(durations)
        if len(taken) == 5:
            self._stop.set()

    monkeypatch.setattr(SampleThread, "_take", take)
    monkeypatch.setattr(thread, "_clock", lambda: clock[0])
    monkeypatch.setattr(thread._stop, "wait", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    thread._run()
    assert taken == [100.0, 100.5, 101.0, 103.0, 103.5]


def test_after_stop_the_process_has_one_thread_again(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from jtrain.devices.sampler import SampleThread\n"
        "for _ in range(50):\n"
        "    thread = SampleThread(Path(sys.argv[1]), interval_s=0.001); thread.start(); assert thread.stop()\n"
        "    assert len(os.listdir('/proc/self/task')) == 1"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "samples.jsonl")], timeout=60, check=True)


def test_stop_ends_a_hanging_nvidia_smi(fake_smi: SetProgram, tmp_path: Path) -> None:
    fake_smi(f"echo $$ > '{tmp_path}/pid'; exec sleep 600")
    thread = SampleThread(tmp_path / "samples.jsonl")
    thread.start()
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    assert thread.stop(timeout_s=6)  # less than nvidia-smi itself is given
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_thread_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    assert SampleThread(tmp_path / "samples.jsonl").stop()


def test_a_file_that_can_not_be_written_loses_samples_and_nothing_else(tmp_path: Path) -> None:
    thread = SampleThread(tmp_path / "gone" / "samples.jsonl", interval_s=0.01)
    thread.start()
    wait_until(lambda: thread.num_lost >= 2)
    assert thread.stop()


def test_signals_reach_the_main_thread(tmp_path: Path) -> None:
    thread = SampleThread(tmp_path / "samples.jsonl", interval_s=60)
    thread.start()
    wait_until((tmp_path / "samples.jsonl").exists)
    native = thread._thread.native_id
    blocked = next(
        line for line in Path(f"/proc/self/task/{native}/status").read_text().splitlines() if "SigBlk" in line
    )
    assert int(blocked.split()[1], 16) & 1 << 14  # SIGTERM is signal 15
    assert thread.stop()
