"""From the machine's state to what `picker.js` draws: texts ready to show, numbers only for bars."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jtrain.domain.messages import DeviceRow, HostRow, MachineState
from jtrain.domain.wording import clip
from jtrain.view.machine import NO_GPU, figure, reasons_for_none, shown_name, uuids_of

_GONE = "it was chosen, but this machine has no such device now"
_HIDDEN = "CUDA_VISIBLE_DEVICES keeps it from this kernel"


def to_picker(state: MachineState, chosen: Sequence[str], hidden: Collection[str], problem: str = "") -> dict[str, Any]:
    """Everything that a picker shows but the choice itself. `hidden`: devices that runs started here can't take."""
    here = uuids_of(state)
    tiles = [_tile(device, is_hidden=device["uuid"] in hidden) for device in state["devices"]]
    tiles += [_gone_tile(uuid) for uuid in chosen if uuid not in here]
    return {
        "time": state["time"],
        "tiles": tiles,
        "host": _host(state["host"]),
        "no_gpu": "" if state["devices"] else NO_GPU,
        "explanation": [] if state["devices"] else reasons_for_none(state),
        "is_simulated": any(device["is_simulated"] for device in state["devices"]),
        "problem": problem,
    }


def _tile(device: DeviceRow, *, is_hidden: bool) -> dict[str, Any]:
    reasons = device["reasons"]
    used, total = device["memory_used_bytes"], device["memory_total_bytes"]
    lost_why = reasons.get("memory_used_bytes", "it doesn't answer")
    return {
        "uuid": device["uuid"],
        "label": device["label"],
        "name": shown_name(device),
        "mark": "simulated" if device["is_simulated"] else "",
        "load": _bar("load", device["load_percent"], 100.0, figure(device["load_percent"], "%"), reasons),
        "memory": _bar("memory", used, total, _memory_text(used, total), reasons),
        "figures": [
            _figure("temperature", device["temperature_celsius"], "°C", reasons),
            _figure("power", device["power_watts"], "W", reasons),
        ],
        "owner": clip(device["owner"], 120) or "free",
        "is_free": not device["owner"],
        "is_lost": device["is_lost"],
        "can_choose": not is_hidden and not device["is_lost"],
        "note": f"out of order: {lost_why}" if device["is_lost"] else _HIDDEN if is_hidden else "",
    }


def _gone_tile(uuid: str) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "label": "missing",
        "name": uuid,
        "mark": "",
        "load": None,
        "memory": None,
        "figures": [],
        "owner": "",
        "is_free": False,
        "is_lost": True,
        "can_choose": False,
        "note": _GONE,
    }


def _bar(label: str, value: float | None, most: float | None, text: str, reasons: dict[str, str]) -> dict[str, Any]:
    known = value is not None and bool(most)
    names = {"load": ("load_percent",), "memory": ("memory_used_bytes", "memory_total_bytes")}[label]
    return {
        "label": label,
        "share": min(1.0, max(0.0, (value or 0.0) / (most or 1.0))) if known else None,
        "text": text,
        "reason": "; ".join(dict.fromkeys(reasons[name] for name in names if reasons.get(name))),
    }


def _memory_text(used: float | None, total: float | None) -> str:
    """`9.71 of 24 GiB`: a tile has no room for the same unit twice."""
    part, whole = figure(used, "B"), figure(total, "B")
    number, _, unit = part.rpartition(" ")
    return f"{number if number and whole.endswith(f' {unit}') else part} of {whole}"


def _figure(label: str, value: float | None, unit: str, reasons: dict[str, str]) -> dict[str, str]:
    name = {"temperature": "temperature_celsius", "power": "power_watts"}[label]
    return {"label": label, "text": figure(value, unit), "reason": reasons.get(name, "")}


def _host(host: HostRow) -> list[dict[str, Any]]:
    reasons = host["reasons"]
    used, total = host["memory_used_bytes"], host["memory_total_bytes"]
    cpu = {
        "label": "CPU",
        "share": None if host["cpu_percent"] is None else min(1.0, host["cpu_percent"] / 100),
        "text": figure(host["cpu_percent"], "%"),
        "reason": reasons.get("cpu_percent", ""),
    }
    memory = _bar("memory", used, total, _memory_text(used, total), reasons)
    return [cpu, {**memory, "label": "RAM"}]
