"""What `--dry-run` prints."""

from __future__ import annotations

from jtrain.devices.choose import Want
from jtrain.domain.wording import clip, format_bytes, table
from jtrain.launching import LaunchPlan

_MOST_NAMES = 30


def plan_text(plan: LaunchPlan) -> str:
    """Devices, batch, and what would be sent."""
    rows = [("devices", _devices(plan.want)), ("precision", plan.options.precision), ("batch", _batch(plan))]
    parts = [table(rows), _captured(plan)]
    if plan.options.outputs:
        parts.append(f"comes back: {', '.join(plan.options.outputs)}")
    return "\n".join([*parts, "nothing was started (--dry-run)"])


def _devices(want: Want) -> str:
    kind = "GPU" if want.kind == "gpu" else "CPU slot"
    count = str(want.count) if want.count == want.minimum else f"{want.minimum} to {want.count}"
    which = f": {', '.join(want.candidates)}" if want.is_exact else f" of {len(want.candidates)}"
    return f"{count} {kind}{'s' if want.count > 1 else ''}{which}, one rank on each"


def _batch(plan: LaunchPlan) -> str:
    """The effective batch; a loader's batch size isn't known before the cell runs."""
    accumulate, ranks = plan.options.accumulate, plan.want.count
    factors = f"{accumulate} accumulated, on {ranks} rank{'s' if ranks > 1 else ''}"
    return f"{accumulate * ranks} times the loader's batch size for each optimizer step ({factors})"


def _captured(plan: LaunchPlan) -> str:
    manifest = plan.manifest
    if not manifest.names:
        return "sent from the notebook: nothing"
    largest = sorted(manifest.names.items(), key=lambda item: -item[1].size_bytes)
    rows = [(f"  {clip(name, 60)}", info.type, format_bytes(info.size_bytes)) for name, info in largest[:_MOST_NAMES]]
    more = [(f"  … {len(largest) - _MOST_NAMES} more", "", "")] if len(largest) > _MOST_NAMES else []
    return f"sent from the notebook: {format_bytes(manifest.total_bytes)}\n{table([*rows, *more], right='2')}"
