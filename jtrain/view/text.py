"""Text and HTML of a snapshot.

The still summary stays in saved notebooks and is compared by tools such as nbval: each figure that changes from run to
run stands alone behind its label, in a form that a simple expression can mask (`tests/nbval-sanitize.cfg`).
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from jtrain.domain.devices import Reading
from jtrain.domain.wording import clip, display_width, format_count, format_duration, format_number
from jtrain.view.snapshot import Snapshot

_BAR_WIDTH = 20
_SPARKLINE_WIDTH = 16
_SPARKS = "▁▂▃▄▅▆▇█"


def progress_line(snapshot: Snapshot, width: int = 100) -> str:
    """The run on one line of a terminal."""
    parts = [snapshot.run_id, snapshot.state]
    if snapshot.state in ("queued", "pausing", "failed", "interrupted") and snapshot.reason:
        parts.append(snapshot.reason)
    if snapshot.state != "queued":
        parts += [
            _bar(snapshot.progress.fraction),
            *progress_parts(snapshot),
            _main_metric(snapshot),
            sparkline(snapshot.curve, _SPARKLINE_WIDTH),
        ]
    return clip("  ".join(part for part in parts if part), width)


def progress_parts(snapshot: Snapshot) -> list[str]:
    """Epoch, step, throughput and time left, as far as they are known."""
    progress = snapshot.progress
    parts = []
    if progress.epochs > 1:
        parts.append(f"epoch {min(progress.epoch + 1, progress.epochs)}/{progress.epochs}")
    if progress.step:
        parts.append(f"step {progress.step}" + (f"/{progress.total_steps}" if progress.total_steps else ""))
    if snapshot.is_alive and progress.samples_per_s:
        parts.append(f"{format_count(progress.samples_per_s)} samples/s")
    elif snapshot.is_alive and progress.steps_per_s:
        parts.append(f"{format_count(progress.steps_per_s)} steps/s")
    if snapshot.is_alive and progress.eta_s is not None:
        parts.append(f"{format_duration(progress.eta_s, is_rough=True)} left")
    return parts


def _main_metric(snapshot: Snapshot) -> str:
    if snapshot.curve_name not in snapshot.metrics:
        return ""
    return f"{clip(snapshot.curve_name, 24)} {format_number(snapshot.metrics[snapshot.curve_name])}"


def _bar(fraction: float | None) -> str:
    if fraction is None:
        return ""
    full = int(fraction * _BAR_WIDTH)
    return f"{'━' * full}{'╌' * (_BAR_WIDTH - full)} {fraction:4.0%}"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in block characters; a gap where a value isn't finite."""
    if not values:
        return ""
    stride = max(1, -(-len(values) // width))
    shown = [values[min(start + stride, len(values)) - 1] for start in range(0, len(values), stride)]
    finite = [value for value in shown if abs(value) != float("inf") and value == value]
    if not finite:
        return ""
    low, span = min(finite), max(finite) - min(finite)
    return "".join(_SPARKS[int((value - low) / span * 7) if span else 0] if value in finite else " " for value in shown)


def summary_rows(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Labels and values of the still summary."""
    progress = snapshot.progress
    rows = []
    if snapshot.reason and snapshot.state != "finished" and not snapshot.reason.startswith(snapshot.state):
        rows.append(("reason", snapshot.reason))
    if snapshot.world_size:
        ranks = f"{snapshot.world_size} rank{'s' if snapshot.world_size > 1 else ''}"
        rows.append(("devices", f"{ranks} on {snapshot.device_kind}"))
    if progress.step:
        rows.append(("steps", _steps(snapshot)))
    if snapshot.elapsed_s:
        rows.append(("time", format_duration(snapshot.elapsed_s)))
    if progress.samples_per_s:
        rows.append(("throughput", f"{format_count(progress.samples_per_s)} samples/s"))
    elif progress.steps_per_s:
        rows.append(("throughput", f"{format_count(progress.steps_per_s)} steps/s"))
    if snapshot.attempt > 1:
        rows.append(("attempts", str(snapshot.attempt)))
    return rows + [(clip(name, 40), format_number(value)) for name, value in snapshot.metrics.items()]


def _steps(snapshot: Snapshot) -> str:
    progress = snapshot.progress
    done = str(progress.step)
    if progress.total_steps and progress.step < progress.total_steps:
        done += f" of {progress.total_steps}"
    if progress.epochs > 1 and snapshot.state == "finished":
        done += f" ({progress.epochs} epochs)"
    return done


def summary_text(snapshot: Snapshot) -> str:
    """The still summary: a line for the run, and one for each figure."""
    rows = summary_rows(snapshot)
    width = max((display_width(label) for label, _ in rows), default=0)
    lines = [f"run {title(snapshot)}: {snapshot.state}"]
    for label, value in rows:
        lines.append(f"  {label}{' ' * (width - display_width(label))}  {value}")
    return "\n".join(lines)


def title(snapshot: Snapshot) -> str:
    """The run's id, and its name when it has one."""
    has_name = snapshot.name and snapshot.name != snapshot.run_id
    return f"{snapshot.run_id} ({clip(snapshot.name, 60)})" if has_name else snapshot.run_id


_COLORS = {
    "finished": "#2e7d32",
    "failed": "#c62828",
    "stopped": "#616161",
    "paused": "#985a00",
    "interrupted": "#985a00",
}
_BADGE = "color:#fff;background:{};border-radius:3px;padding:1px 7px;font-size:90%"
_ROWS = "display:flex;flex-wrap:wrap;gap:1px 18px;margin-top:3px;font-variant-numeric:tabular-nums"


def summary_html(snapshot: Snapshot) -> str:
    """The same summary for a browser: no colours of its own but the badge's, so that it fits light and dark pages."""
    badge = _BADGE.format(_COLORS.get(snapshot.state, "#1565c0"))
    cells = "".join(
        f'<span><span style="opacity:.7">{html.escape(label)}</span>&ensp;{html.escape(value)}</span>'
        for label, value in summary_rows(snapshot)
    )
    return (
        f'<div style="line-height:1.45"><span style="{badge}">{html.escape(snapshot.state)}</span> '
        f'<b>{html.escape(title(snapshot))}</b><div style="{_ROWS}">{cells}</div></div>'
    )


def share(used: Reading, total: Reading) -> float | None:
    """`used` as a share of `total`, 0 to 1, or None when one of them isn't known."""
    if used.value is None or not total.value:
        return None
    return min(1.0, used.value / total.value)
