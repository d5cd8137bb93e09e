"""Control groups (Linux): what a container, a service or a batch job may really use, versions 2 and 1.

A limit may stand at any level between this process's group and the top; the tightest one counts.
Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpusets}.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 says "no limit" by a number near 2**63, rounded to pages."""


@dataclass(frozen=True)
class MemoryLimit:
    """A group's memory: the limit and what is used of it, both in bytes, page cache that can be given back left out."""

    limit_bytes: int
    used_bytes: int


@dataclass(frozen=True)
class CpuLimit:
    """A group's CPU quota in CPUs, and where to read the CPU time it has used."""

    cpus: float
    usage_file: Path

    def used_seconds(self) -> float | None:
        """CPU seconds used by the group since it was made, or None when the file can't be read."""
        text = _read(self.usage_file)
        if self.usage_file.name == "cpu.stat":
            microseconds = _table(text).get("usage_usec")
            return None if microseconds is None else microseconds / 1e6
        return int(text) / 1e9 if text.isdigit() else None


class ControlGroups:
    """The groups of this process. `root` is `/`, or a folder with a copy of `proc` and `sys` for tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._mounts = _find_mounts(_read(root / "proc/self/mountinfo"))
        self._groups = _find_groups(_read(root / "proc/self/cgroup"))

    def memory(self) -> MemoryLimit | None:
        """The tightest memory limit, or None when there is none."""
        found = [limit for limit in map(_memory_2, self._levels("")) if limit]
        found += [limit for limit in map(_memory_1, self._levels("memory")) if limit]
        return min(found, key=lambda limit: limit.limit_bytes, default=None)

    def cpu(self) -> CpuLimit | None:
        """The tightest CPU quota, or None when there is none."""
        found = [limit for limit in map(_cpu_2, self._levels("")) if limit]
        usage = (self._own("cpuacct") or Path()) / "cpuacct.usage"
        found += [CpuLimit(cpus, usage) for cpus in map(_cpu_1, self._levels("cpu")) if cpus]
        return min(found, key=lambda limit: limit.cpus, default=None)

    def oom_kills(self) -> int:
        """How many processes the kernel's memory killer has ended in this group; without one, on the whole machine."""
        for folder, name in ((self._own(""), "memory.events"), (self._own("memory"), "memory.oom_control")):
            counts = _table(_read(folder / name)) if folder else {}
            if "oom_kill" in counts:
                return counts["oom_kill"]
        return _table(_read(self._root / "proc/vmstat")).get("oom_kill", 0)

    def _own(self, controller: str) -> Path | None:
        return next(self._levels(controller), None)

    def _levels(self, controller: str) -> Iterator[Path]:
        """Folders from this process's group up to the top; `controller` is empty for version 2."""
        if controller not in self._mounts or controller not in self._groups:
            return
        inside, mount = self._mounts[controller]
        group = self._groups[controller]
        # A container may see only its own branch, mounted as if it were the whole tree.
        relative = group.removeprefix(inside.rstrip("/")) if group.startswith(inside) else "/"
        top = self._root / mount.lstrip("/")
        folder = top / relative.strip("/")
        if ".." in folder.parts or not folder.is_dir():
            folder = top
        yield from [level for level in (folder, *folder.parents) if level == top or top in level.parents]


def _find_mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Controller (empty: version 2) to (branch of the tree that is mounted, mount point)."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        names = [""] if kind[0] == "cgroup2" else kind[2].split(",")
        for name in names:
            mounts.setdefault(name, (fields[3], fields[4]))
    return mounts


def _find_groups(text: str) -> dict[str, str]:
    """Controller (empty: version 2) to this process's group."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, colon, path = rest.partition(":")
        if colon:
            groups |= dict.fromkeys(names.split(","), path)
    return groups


def _memory_2(folder: Path) -> MemoryLimit | None:
    limit, used = _read(folder / "memory.max"), _read(folder / "memory.current")
    if not limit.isdigit() or not used.isdigit():
        return None
    cache = _table(_read(folder / "memory.stat")).get("inactive_file", 0)
    return MemoryLimit(int(limit), max(0, int(used) - cache))


def _memory_1(folder: Path) -> MemoryLimit | None:
    limit, used = _read(folder / "memory.limit_in_bytes"), _read(folder / "memory.usage_in_bytes")
    if not limit.isdigit() or not used.isdigit() or int(limit) >= _NO_LIMIT_BYTES:
        return None
    cache = _table(_read(folder / "memory.stat")).get("total_inactive_file", 0)
    return MemoryLimit(int(limit), max(0, int(used) - cache))


def _cpu_2(folder: Path) -> CpuLimit | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return CpuLimit(int(quota) / int(period), folder / "cpu.stat")


def _cpu_1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _read(path: Path) -> str:
    """The stripped text of a file of the kernel's, empty when there is none or it can't be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _table(text: str) -> dict[str, int]:
    """Lines of `name number`."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
