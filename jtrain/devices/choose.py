"""Pure: from `--gpus` and `--nproc` to the devices that a run waits for, and which devices others use.

One process runs on each device. `auto` takes every free GPU, and the CPU where there is no GPU; `free` the same,
but never the CPU; `all` every GPU; a number as many free ones; a list exactly those; `none` the CPU. `picker` stands
for the list of devices that were chosen in the sidebar or a GPUPicker; it is looked up once, when a run is started.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from jtrain.domain.devices import Device, GpuProcess, Sample, format_bytes
from jtrain.errors import DeviceError, OptionError, nearest

_WORDS = ("auto", "all", "free", "none", "picker")
_HIDDEN_USE_BYTES = 1 << 30
"""Memory in use that no listed process explains, from which on a GPU counts as used: a container sees memory, but
not the processes of others; an idle GPU shows some hundred MiB at most."""


@dataclass(frozen=True)
class Want:
    """What a run waits for: at least `minimum` and at most `count` of the devices `candidates` (UUIDs).

    With `is_exact` the candidates are all wanted, in their order, and only other runs' leases are waited for: the
    user chose them whoever else may use them. Otherwise the first free ones are taken, `count` at most.
    """

    kind: Literal["gpu", "cpu"]
    count: int
    minimum: int
    candidates: tuple[str, ...]
    is_exact: bool = False

    @property
    def takes_all_free(self) -> bool:
        """Whether it starts with whatever is free, from `minimum` on."""
        return self.minimum < self.count


def ask(gpus: str, nproc: int | None, visible: Sequence[Device], cpu_slots: Sequence[Device]) -> Want:
    """What `--gpus` and `--nproc` want of the devices that are visible.

    Raises OptionError for values that mean nothing, DeviceError for what this machine hasn't got.
    """
    if nproc is not None and nproc < 1:
        raise OptionError(f"--nproc {nproc}: a run has at least one process; `--nproc 1` is the smallest")
    word = gpus.strip().lower()
    if word == "none" or (word == "auto" and not visible):
        return _want_cpu(nproc, cpu_slots)
    if word in ("auto", "free"):
        return _want_free(word, nproc, visible)
    if word == "all":
        return _want_exact(_need_gpus("all", nproc, visible), nproc, "all", visible)
    if _is_number(word):
        return _want_number(int(word), nproc, visible)
    return _want_exact(_find_listed(gpus, nproc, visible), nproc, gpus.strip(), visible)


def is_picker(gpus: str) -> bool:
    """Whether `--gpus` stands for the devices that were chosen in the sidebar or a GPUPicker."""
    return gpus.strip().lower() == "picker"


def list_chosen(chosen: Sequence[str], nproc: int | None, visible: Sequence[Device]) -> str:
    """What `--gpus picker` stands for: the list of the `chosen` UUIDs, as `--gpus` is written.

    Raises DeviceError when nothing is chosen or a chosen device isn't there, OptionError for another `nproc`.
    """
    _need_gpus("picker", nproc, visible)
    if not chosen:
        raise DeviceError(
            f"--gpus picker: no device is chosen yet; click one in the sidebar or in jtrain.GPUPicker(). There "
            f"{_are(visible)}"
        )
    gone = [uuid for uuid in chosen if all(uuid != device.uuid for device in visible)]
    if gone:
        is_one = len(gone) == 1
        raise DeviceError(
            f"--gpus picker: {', '.join(gone)} {'was' if is_one else 'were'} chosen, but "
            f"{'is no device' if is_one else 'are no devices'} that this process may use (CUDA_VISIBLE_DEVICES, when "
            f"set, hides some). There {_are(visible)}; choose again in the sidebar or in jtrain.GPUPicker()"
        )
    _check_nproc(nproc, len(chosen), "picker")
    return ",".join(chosen)


def find_foreign_use(sample: Sample, ours: Collection[int] = ()) -> dict[str, str]:
    """GPUs that something outside jtrain uses, or that can't be used at all, each with who or why.

    `ours` are processes that don't count, such as the kernel that started the run. Programs that only draw on
    a screen don't count either.
    """
    uses = {}
    for gpu in sample.devices:
        others = [process for process in gpu.processes if process.pid not in ours and process.kind == "compute"]
        if gpu.is_lost:
            uses[gpu.uuid] = f"out of order ({gpu.memory_used_bytes.reason})"
        elif others:
            uses[gpu.uuid] = "used by " + ", ".join(str(process) for process in others)
        elif (hidden := _hidden_bytes(gpu.memory_used_bytes.value, gpu.processes)) > _HIDDEN_USE_BYTES:
            uses[gpu.uuid] = f"used by a process that can't be seen from here ({format_bytes(hidden)} are taken)"
    return uses


def _hidden_bytes(used: float | None, processes: Sequence[GpuProcess]) -> float:
    """Memory that no listed process explains; 0 when some process's share isn't known."""
    shares = [process.memory_bytes for process in processes]
    known = [share for share in shares if share is not None]
    return 0.0 if used is None or len(known) < len(shares) else used - sum(known)


def _want_cpu(nproc: int | None, slots: Sequence[Device]) -> Want:
    count = nproc or 1
    if count > len(slots):
        raise DeviceError(
            f"{_processes(count)} on the CPU were asked for and this machine has {_slots(len(slots))}; use "
            f"`--nproc {len(slots)}`, or set the environment variable JTRAIN_CPU_SLOTS={count} to allow more"
        )
    return Want("cpu", count, count, tuple(slot.uuid for slot in slots))


def _want_free(word: str, nproc: int | None, visible: Sequence[Device]) -> Want:
    uuids = tuple(gpu.uuid for gpu in _need_gpus(word, nproc, visible))
    if nproc is None:
        return Want("gpu", len(uuids), 1, uuids)
    if nproc > len(uuids):
        raise DeviceError(
            f"--gpus {word} --nproc {nproc}: one process runs on each GPU, and there {_are(visible)}; use "
            f"`--nproc {len(uuids)}`, or `--gpus none --nproc {nproc}` to use the CPU"
        )
    return Want("gpu", nproc, nproc, uuids)


def _want_number(count: int, nproc: int | None, visible: Sequence[Device]) -> Want:
    if count < 1:
        hint = "`--gpus none` uses the CPU, `--gpus 1` one GPU" + ("; `--gpus 0,` takes GPU 0" if count == 0 else "")
        raise OptionError(f"--gpus {count}: that is no number of GPUs; {hint}")
    _need_gpus(str(count), nproc or count, visible)
    if count > len(visible):
        raise DeviceError(f"--gpus {count}: there {_are(visible)}; the most is `--gpus {len(visible)}`")
    _check_nproc(nproc, count, str(count))
    return Want("gpu", count, count, tuple(gpu.uuid for gpu in visible))


def _want_exact(chosen: Sequence[Device], nproc: int | None, gpus: str, visible: Sequence[Device]) -> Want:
    _check_nproc(nproc, len(chosen), gpus)
    uuids = tuple(device.uuid for device in chosen)
    return Want("gpu", len(uuids), len(uuids), uuids, is_exact=True)


def _find_listed(gpus: str, nproc: int | None, visible: Sequence[Device]) -> list[Device]:
    """The devices of a list such as `0,2`, `1:0` (a MIG slice), `GPU-5b3e,GPU-91`."""
    entries = [entry.strip() for entry in gpus.split(",") if entry.strip()]
    if not entries or not all(_looks_like_device(entry) for entry in entries):
        close = nearest(gpus.strip().lower(), _WORDS)
        hint = f"did you mean `--gpus {close}`? " if close else ""
        raise OptionError(
            f"--gpus {gpus!r}: {hint}It can be auto, all, free, none, picker, a number, or a list such as 0,2"
        )
    _need_gpus(gpus, nproc or len(entries), visible)
    chosen: list[Device] = []
    for entry in entries:
        device = _find_one(entry, visible)
        if device in chosen:
            names = ",".join(dict.fromkeys(entries))
            raise OptionError(
                f"--gpus {gpus}: {device.label} is named twice; one process runs on each: `--gpus {names}`"
            )
        chosen.append(device)
    return chosen


def _find_one(entry: str, visible: Sequence[Device]) -> Device:
    found = [gpu for gpu in visible if entry == gpu.index or _is_start_of(entry, gpu.uuid)]
    if len(found) == 1:
        return found[0]
    what = "names several devices" if found else "names no device that this process may use"
    slices = [gpu.index for gpu in visible if gpu.index.startswith(f"{entry}:")]
    hint = f"; GPU {entry} is cut into the slices {', '.join(slices)}" if slices else ""
    hint = hint or ("" if found else " (CUDA_VISIBLE_DEVICES, when set, hides others)")
    raise DeviceError(f"--gpus: {entry!r} {what}; there {_are(visible)}{hint}")


def _need_gpus(gpus: str, nproc: int | None, visible: Sequence[Device]) -> Sequence[Device]:
    if visible:
        return visible
    instead = "--gpus none" + (f" --nproc {nproc}" if nproc and nproc > 1 else "")
    raise DeviceError(
        f"--gpus {gpus}: no GPU can be seen on this machine (`%jtrain gpus` says why); `{instead}` trains on "
        "the CPU, and `--gpus auto` takes GPUs where there are some"
    )


def _check_nproc(nproc: int | None, count: int, gpus: str) -> None:
    if nproc is not None and nproc != count:
        raise OptionError(
            f"--gpus {gpus} --nproc {nproc}: one process runs on each GPU, and that would be {count}; leave "
            f"`--nproc` out, or use `--gpus auto --nproc {nproc}` for {nproc} free ones"
        )


def _is_number(word: str) -> bool:
    return word.lstrip("-+").isdigit() and len(word) < 10


def _looks_like_device(entry: str) -> bool:
    return entry.replace(":", "", 1).isdigit() or entry.upper().startswith(("GPU-", "MIG-"))


def _is_start_of(entry: str, uuid: str) -> bool:
    return len(entry) > len("GPU-") and uuid.lower().startswith(entry.lower())


def _are(visible: Sequence[Device]) -> str:
    """`is 1 GPU: 0 (NVIDIA H100)`, `are 4 GPUs: 0, 1, 2, 3`."""
    names = ", ".join(gpu.index for gpu in visible)
    detail = f"{names} ({visible[0].name})" if len({gpu.name for gpu in visible}) == 1 else names
    noun = "device" if any(gpu.kind == "mig" for gpu in visible) else "GPU"
    return f"is 1 {noun}: {detail}" if len(visible) == 1 else f"are {len(visible)} {noun}s: {detail}"


def _slots(count: int) -> str:
    return "1 CPU slot" if count == 1 else f"{count} CPU slots"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
