"""What `jtrain.fit` gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class FitResult:
    """A trained model and how it got there.

    `history` holds one value per epoch under each name: `loss` (mean training loss), and with validation data
    `val/loss`, `val/accuracy` (targets that are class indices) and `val/<name>` of further metrics.
    `best` is the epoch (from 0) with the lowest `val/loss` (without validation: `loss`) and its values.
    `model` is the trained `torch.nn.Module` on the CPU, as it was after the last epoch.
    """

    history: dict[str, list[float]]
    best: dict[str, float] = field(default_factory=dict)
    model: Any = None

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.best.items() if name != "epoch")
        epochs = len(self.history.get("loss", ()))
        model = type(self.model).__name__
        return f"<FitResult of {model}: {epochs} epochs; best epoch {int(self.best.get('epoch', 0)) + 1}: {values}>"


def best_epoch(history: dict[str, list[float]]) -> dict[str, float]:
    """The values of the best epoch and its number `epoch`; epochs whose deciding value is NaN don't count."""
    deciding = history.get("val/loss") or history.get("loss") or []
    candidates = [index for index, value in enumerate(deciding) if value == value]
    if not candidates:
        return {}
    best = min(candidates, key=lambda index: deciding[index])
    return {"epoch": float(best)} | {name: values[best] for name, values in history.items() if len(values) > best}
