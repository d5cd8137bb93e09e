"""Pure: which of the machine's devices `CUDA_VISIBLE_DEVICES` leaves to this process, and the CPU's slots.

The rules are those of the CUDA programming guide ("CUDA Environment Variables"): indices, UUIDs or their
beginnings, MIG UUIDs; an entry that names nothing hides itself and all after it; a device named twice hides all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jtrain.domain.devices import Device
from jtrain.errors import OptionError

_FEWEST_SLOTS = 4
"""So that several small runs, and runs on two ranks, find room on any machine."""


def select_visible(devices: Sequence[Device], environ: Mapping[str, str]) -> list[Device]:
    """The devices that may be used, in the order that `CUDA_VISIBLE_DEVICES` gives them, else in the machine's."""
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return list(devices)
    visible: list[Device] = []
    for entry in setting.split(","):
        named = _find_named(devices, entry.strip())
        if not named:
            break
        if any(device in visible for device in named):
            return []
        visible += named
    return visible


def explain_visible(devices: Sequence[Device], environ: Mapping[str, str]) -> list[str]:
    """What `CUDA_VISIBLE_DEVICES` does here, in sentences; none when it isn't set or hides nothing."""
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None or not devices:
        return []
    visible = select_visible(devices, environ)
    names = ", ".join(device.label for device in visible) or "no GPU"
    sentences = [f"CUDA_VISIBLE_DEVICES={setting!r} leaves {names} to this process."]
    uses_indices = any(entry.strip().isdigit() for entry in setting.split(","))
    is_mixed = len({device.name for device in devices}) > 1
    if uses_indices and is_mixed and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        sentences.append(
            "Its numbers were read as nvidia-smi counts. CUDA itself counts the fastest GPU first unless "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID is set, so set that too, or use UUIDs."
        )
    return sentences


def cpu_slots(environ: Mapping[str, str], usable_cpus: int) -> list[Device]:
    """The CPU's slots: `JTRAIN_CPU_SLOTS`, else as many as usable CPUs, but at least 4. Raises OptionError."""
    setting = environ.get("JTRAIN_CPU_SLOTS", "").strip()
    if setting and not (setting.isdigit() and 0 < int(setting) <= 4096):
        raise OptionError(f"JTRAIN_CPU_SLOTS={setting!r}: it must be a number of CPU processes, such as 4")
    count = int(setting) if setting else max(_FEWEST_SLOTS, usable_cpus)
    return [Device(f"CPU-{slot}", "cpu", str(slot), "CPU") for slot in range(count)]


def _find_named(devices: Sequence[Device], entry: str) -> list[Device]:
    """The device that an entry of CUDA_VISIBLE_DEVICES names; the index of a GPU in MIG mode names all its slices."""
    if entry.isdigit():
        return [device for device in devices if device.index.partition(":")[0] == entry]
    if not entry.startswith(("GPU-", "MIG-")):
        return []
    named = [device for device in devices if device.uuid.startswith(entry)]
    return named if len(named) == 1 else []
