"""One pass over validation data on all ranks: every sample counts once, whichever rank saw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from jtrain.errors import OptionError
from jtrain.worker.losses import NamedLoss, correct_per_sample, is_classification

Metric = Callable[[Any, Any], Any]
"""A function of a batch's outputs and targets that gives a number."""

_TARGET_KEYS = ("labels", "label", "targets", "target", "y")


def split_batch(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """A batch as what the model is called with (positional, named) and the targets.

    A tuple's last element is the target, and so is a dict's `labels` (`label`, `targets`, `target`, `y`).
    A batch of one tensor is its own target, as for an autoencoder.
    """
    if isinstance(batch, Mapping):
        key = next((key for key in _TARGET_KEYS if key in batch), None)
        return (), {name: value for name, value in batch.items() if name != key}, batch[key] if key else None
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return (tuple(batch[:-1]), {}, batch[-1]) if len(batch) > 1 else (tuple(batch), {}, batch[0])
    return (batch,), {}, batch


def own_loss(outputs: Any, targets: Any) -> Any:
    """The loss that the model itself computes, as models of `transformers` do when a batch has labels."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if loss is None:
        raise OptionError("loss='model' needs a model whose output has a `loss`; name a loss or give a function")
    return loss


def forward(model: nn.Module, loss: Callable[[Any, Any], Any], batch: Any) -> tuple[Tensor, Any, Any]:
    """The batch's loss, the model's outputs and the targets."""
    inputs, named, targets = split_batch(batch)
    if loss is own_loss:
        outputs = model(**batch) if isinstance(batch, Mapping) else model(*batch)
    else:
        outputs = model(*inputs, **named)
        if isinstance(loss, NamedLoss):
            outputs = getattr(outputs, "logits", outputs)  # as models of `transformers` name their scores
    value = loss(outputs, targets)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise OptionError(f"loss must give a tensor with one element for a batch, not {_shape(value)}")
    return value.reshape(()), outputs, targets


def _shape(value: Any) -> str:
    return f"one of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)


def evaluate(
    accelerator: Accelerator,
    model: nn.Module,
    loader: Any,
    loss: Callable[[Any, Any], Any],
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, float]:
    """Mean loss, accuracy (when the targets are class indices) and `metrics` over `loader`, the same on every rank.

    A named loss is averaged over the samples exactly. Another loss, and each of `metrics`, is computed per batch and
    rank, and weighted by the number of samples. Gathering leaves out the samples that fill up the last batch.
    """
    names = ["loss", *(metrics or {})]
    total: Tensor | None = None
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for batch in loader:
                rows, has_classes = _rows(model, loss, metrics or {}, batch)
                if has_classes and "accuracy" not in names:
                    names.append("accuracy")
                summed = accelerator.gather_for_metrics(rows).sum(0)
                total = summed if total is None else total + summed
    finally:
        model.train(was_training)
    if total is None:
        raise OptionError("the validation data is empty")
    return {
        name: value / count if count else float("nan")
        for name, (value, count) in zip(names, total.tolist(), strict=True)
    }


def _rows(
    model: nn.Module, loss: Callable[[Any, Any], Any], metrics: Mapping[str, Metric], batch: Any
) -> tuple[Tensor, bool]:
    """For each sample and name a value and its weight, of shape (batch, names, 2); and whether accuracy is the last."""
    value, outputs, targets = forward(model, loss, batch)
    size = num_samples(batch)
    columns = [
        loss.per_sample(outputs, targets) if isinstance(loss, NamedLoss) else (value.expand(size), value.new_ones(size))
    ]
    for metric in metrics.values():
        columns.append((value.new_full((size,), float(metric(outputs, targets))), value.new_ones(size)))
    has_classes = is_classification(outputs, targets)
    if has_classes:
        columns.append(correct_per_sample(outputs, targets))
    # Double precision, so that a sum over millions of samples stays exact; MPS has none.
    kind = torch.float32 if value.device.type == "mps" else torch.float64
    return torch.stack([torch.stack(column, dim=-1).to(kind) for column in columns], dim=1), has_classes


def num_samples(batch: Any) -> int:
    """The length of the first tensor in the batch."""
    values = list(batch.values()) if isinstance(batch, Mapping) else batch if isinstance(batch, Sequence) else [batch]
    for value in values:
        if isinstance(value, Tensor) and value.ndim:
            return len(value)
    raise OptionError("a batch holds no tensor whose first dimension counts its samples")
