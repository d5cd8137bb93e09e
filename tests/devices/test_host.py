"""The host within its control groups, read from copies of the kernel's files."""

import os
from pathlib import Path

import pytest

from jtrain.devices.cgroups import ControlGroups
from jtrain.devices.host import CpuUse, Host, cpu_count

GIB = 1 << 30
V2 = "30 23 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = """31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"""


def machine(root: Path, mountinfo: str, cgroup: str, files: dict[str, str]) -> ControlGroups:
    """A folder that looks like `/` to the reader."""
    all_files = {"proc/self/mountinfo": mountinfo, "proc/self/cgroup": cgroup}
    all_files |= {f"sys/fs/cgroup/{name}": content for name, content in files.items()}
    for name, content in all_files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return ControlGroups(root)


def test_a_version_2_container_tells_its_memory_and_cpus(tmp_path: Path) -> None:
    files = {
        "memory.max": str(8 * GIB),
        "memory.current": str(3 * GIB),
        "memory.stat": f"anon 5\ninactive_file {GIB}",
        "cpu.max": "250000 100000",
        "cpu.stat": "usage_usec 1500000\nuser_usec 1",
    }
    groups = machine(tmp_path, V2, "0::/", files)
    memory, cpu = groups.memory(), groups.cpu()
    assert memory is not None
    assert (memory.limit_bytes, memory.used_bytes) == (8 * GIB, 2 * GIB)
    assert cpu is not None
    assert (cpu.cpus, cpu.used_seconds()) == (2.5, 1.5)


def test_the_tightest_level_of_version_2_counts(tmp_path: Path) -> None:
    files = {
        "a/memory.max": str(2 * GIB),
        "a/memory.current": str(GIB),
        "a/cpu.max": "100000 100000",
        "a/b/memory.max": str(4 * GIB),
        "a/b/memory.current": "1",
        "a/b/cpu.max": "300000 100000",
    }
    groups = machine(tmp_path, V2, "0::/a/b", files)
    memory, cpu = groups.memory(), groups.cpu()
    assert memory is not None
    assert memory.limit_bytes == 2 * GIB
    assert cpu is not None
    assert cpu.cpus == 1.0


def test_a_version_1_container_tells_its_memory_and_cpus(tmp_path: Path) -> None:
    files = {
        "memory/docker/x/memory.limit_in_bytes": str(4 * GIB),
        "memory/docker/x/memory.usage_in_bytes": str(2 * GIB),
        "memory/docker/x/memory.stat": f"total_inactive_file {GIB}",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.usage_in_bytes": "1",
        "cpu,cpuacct/docker/x/cpu.cfs_quota_us": "150000",
        "cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000",
        "cpu,cpuacct/docker/x/cpuacct.usage": "2500000000",
    }
    groups = machine(tmp_path, V1, "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/", files)
    memory, cpu = groups.memory(), groups.cpu()
    assert memory is not None
    assert (memory.limit_bytes, memory.used_bytes) == (4 * GIB, GIB)
    assert cpu is not None
    assert (cpu.cpus, cpu.used_seconds()) == (1.5, 2.5)


def test_a_container_that_sees_only_its_branch_finds_its_limits(tmp_path: Path) -> None:
    mount = V1.replace("0:30 / ", "0:30 /docker/x ")
    files = {"memory/memory.limit_in_bytes": str(GIB), "memory/memory.usage_in_bytes": "5"}
    memory = machine(tmp_path, mount, "4:memory:/docker/x", files).memory()
    assert memory is not None
    assert memory.limit_bytes == GIB


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "files"),
    [
        ("", "", {}),
        ("nonsense - x", "no colons", {}),
        (V2, "0::/gone", {}),
        (V2, "0::/../../etc", {"memory.max": "max", "memory.current": "1", "cpu.max": "max 100000"}),
        (V2, "0::/", {"memory.max": "many", "memory.current": "", "cpu.max": "100000 0"}),
        (
            V1,
            "4:memory:/",
            {"memory/memory.limit_in_bytes": str((1 << 63) - 4096), "memory/memory.usage_in_bytes": "1"},
        ),
    ],
)
def test_without_a_readable_limit_there_is_none(
    tmp_path: Path, mountinfo: str, cgroup: str, files: dict[str, str]
) -> None:
    groups = machine(tmp_path, mountinfo, cgroup, files)
    assert (groups.memory(), groups.cpu()) == (None, None)


@pytest.mark.parametrize(("quota", "expected"), [("50000 100000", 1), ("100000 100000", 1), ("max 100000", None)])
def test_usable_cpus_obey_quota_and_affinity(tmp_path: Path, quota: str, expected: int | None) -> None:
    allowed = len(os.sched_getaffinity(0))
    groups = machine(tmp_path, V2, "0::/", {"cpu.max": quota})
    assert cpu_count(groups) == (expected or allowed)


def test_memory_is_the_containers_where_it_is_smaller_than_the_hosts(tmp_path: Path) -> None:
    small = machine(tmp_path / "small", V2, "0::/", {"memory.max": "1000000", "memory.current": "250000"})
    sample = Host(groups=small).sample()
    assert (sample.memory_used_bytes.value, sample.memory_total_bytes.value) == (250000, 1000000)
    huge = machine(tmp_path / "huge", V2, "0::/", {"memory.max": str(1 << 55), "memory.current": "250000"})
    assert (Host(groups=huge).sample().memory_total_bytes.value or 0) < 1 << 55


def test_cpu_use_is_a_share_of_the_containers_quota(tmp_path: Path) -> None:
    def write(microseconds: int) -> ControlGroups:
        return machine(tmp_path, V2, "0::/", {"cpu.max": "200000 100000", "cpu.stat": f"usage_usec {microseconds}"})

    now = 100.0
    use = CpuUse(write(1_000_000).cpu(), clock=lambda: now)
    assert use.read().value is None
    now = 101.0
    write(2_500_000)
    assert use.read().value == 75.0


def test_the_first_cpu_reading_is_missing_and_not_0() -> None:
    use = CpuUse(None)
    readings = [use.read() for _ in range(3)]
    assert any(reading.value is None and "two readings" in (reading.reason or "") for reading in readings)


def test_disk_space_of_a_folder_that_is_gone_has_a_reason(tmp_path: Path) -> None:
    assert (Host(tmp_path).sample().disk_free_bytes.value or 0) > 0
    reading = Host(tmp_path / "gone").sample().disk_free_bytes
    assert reading.value is None
    assert "No such file" in (reading.reason or "")


def test_oom_kills_are_those_of_the_own_group(tmp_path: Path) -> None:
    v2 = machine(tmp_path / "2", V2, "0::/a", {"a/memory.events": "oom 3\noom_kill 2"})
    v1 = machine(tmp_path / "1", V1, "4:memory:/", {"memory/memory.oom_control": "under_oom 0\noom_kill 5"})
    bare = machine(tmp_path / "0", "", "", {})
    (tmp_path / "0/proc/vmstat").write_text("pgfault 1\noom_kill 7\n")
    assert [v2.oom_kills(), v1.oom_kills(), bare.oom_kills()] == [2, 5, 7]
