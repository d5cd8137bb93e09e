"""Losses by name: forgiving about shapes where the meaning is clear, and able to give each sample's own loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrain.errors import OptionError, nearest

IGNORED_CLASS = -100
"""Targets that don't count; the default of torch.nn.functional.cross_entropy."""

_OF_CLASSES: dict[str, Callable[..., Tensor]] = {"cross_entropy": F.cross_entropy, "nll": F.nll_loss}
_OF_NUMBERS: dict[str, Callable[..., Tensor]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "bce": F.binary_cross_entropy,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
}
NAMES = tuple(_OF_CLASSES | _OF_NUMBERS)


class NamedLoss:
    """A loss of torch.nn.functional. `arguments` are passed on to it, for example `label_smoothing=0.1`."""

    def __init__(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        if name not in NAMES:
            close = nearest(name, NAMES)
            hint = f"did you mean {close!r}?" if close else f"there are {', '.join(NAMES)}"
            raise OptionError(f"no loss is called {name!r}; {hint} A function of (outputs, targets) will do too.")
        self.name = name
        self._arguments = arguments or {}

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch."""
        return self._compute(outputs, targets, "mean")

    def per_sample(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """For each sample the sum of its losses and how many they are; both of shape (batch,)."""
        losses = self._compute(outputs, targets, "none")
        counted = torch.ones_like(losses)
        if self.name in _OF_CLASSES and targets.shape == losses.shape:
            counted = (targets != self._arguments.get("ignore_index", IGNORED_CLASS)).to(losses.dtype)
        return _sum_per_sample(losses), _sum_per_sample(counted)

    def _compute(self, outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
        if self.name in _OF_CLASSES:
            outputs = classes_second(outputs, targets)
            return _OF_CLASSES[self.name](outputs, targets, reduction=reduction, **self._arguments)
        targets = _like(outputs, targets, self.name)
        return _OF_NUMBERS[self.name](outputs, targets, reduction=reduction, **self._arguments)

    def __repr__(self) -> str:
        return f"NamedLoss({self.name!r})"


def _sum_per_sample(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1) if values.ndim > 1 else values


def is_classification(outputs: Any, targets: Any) -> bool:
    """Whether `targets` are class indices for the scores in `outputs`."""
    return (
        isinstance(outputs, Tensor)
        and isinstance(targets, Tensor)
        and not targets.is_floating_point()
        and not targets.is_complex()
        and outputs.is_floating_point()
        and outputs.ndim == targets.ndim + 1
    )


def classes_second(outputs: Tensor, targets: Tensor) -> Tensor:
    """`outputs` of shape (batch, classes, …), also when they came as (batch, …, classes), as of language models."""
    if outputs.ndim > 2 and outputs.ndim == targets.ndim + 1 and outputs.shape[:-1] == targets.shape:
        return outputs.movedim(-1, 1)
    return outputs


def _like(outputs: Tensor, targets: Tensor, name: str) -> Tensor:
    """`targets` in the shape and type of `outputs`: (batch,) and (batch, 1) mean the same, but never broadcast."""
    if targets.shape != outputs.shape:
        if targets.numel() != outputs.numel():
            raise ValueError(
                f"loss {name!r}: the model's output has the shape {tuple(outputs.shape)}, "
                f"the targets have {tuple(targets.shape)}"
            )
        targets = targets.reshape(outputs.shape)
    return targets.to(outputs.dtype)


def correct_per_sample(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """For each sample how many of its classes were found and how many there are to find; both of shape (batch,)."""
    counted = targets != IGNORED_CLASS
    found = (classes_second(outputs, targets).argmax(1) == targets) & counted
    return _sum_per_sample(found.float()), _sum_per_sample(counted.float())
