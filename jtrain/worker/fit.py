"""The adaptive trainer: one training loop for most models, the same on the CPU, one device or several.

It is built on `run.prepare`, `run.batches`, `run.step` and `run.log` alone, as a cell would be, so pausing, resuming
and checkpoints come with them. Validation runs in the loop's body after an epoch's last batch, that is before the
boundary at which a checkpoint is taken: a resumed run never validates an epoch twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from accelerate.scheduler import AcceleratedScheduler
from torch import Tensor
from torch.utils.data import DataLoader

from jtrain.domain.fit_result import FitResult, best_epoch
from jtrain.errors import OptionError
from jtrain.worker.evaluation import Metric, evaluate, forward, num_samples, own_loss
from jtrain.worker.fit_parts import as_data, make_loader, make_model, make_optimizer, make_scheduler, set_aside
from jtrain.worker.handle import WorkerRun
from jtrain.worker.losses import NamedLoss

DEFAULT_BATCH_SIZE = 32

_SPLIT_SEED = 0
"""Validation data set aside is the same in all runs, whatever their seeds, so that they can be compared."""


def fit(
    run: WorkerRun,
    *,
    model: Any,
    train: Any,
    loss: Any = "cross_entropy",
    optimizer: Any = "adamw",
    validation: Any = None,
    epochs: int = 1,
    batch_size_per_gpu: int | None = None,
    effective_batch_size: int | None = None,
    learning_rate: float | None = None,
    log_interval: int = 10,
    scheduler: Any = None,
    metrics: Mapping[str, Metric] | None = None,
    num_workers: int = 0,
) -> FitResult:
    """Train `model` on all ranks of `run`.

    `model`: a module, or a class or function that makes one. `train`: a dataset, a DataLoader, or a tuple (X, y) of
    arrays or tensors. `validation`: the same, or the share of `train` to set aside (0.2), looked at after every epoch.
    `loss`: a name (`cross_entropy`, `mse`, …), "model" for the loss that the model itself returns, or a function of
    (outputs, targets). `optimizer`: a name, a class, a function of the parameters, or an optimizer. `scheduler`: a name
    (`cosine`, `linear`, `one_cycle`) or a function of the optimizer; stepped once per optimizer step.
    `batch_size_per_gpu` (default 32) is the batch of one rank. `effective_batch_size` is the number of samples of an
    optimizer step over all ranks: batches are accumulated so that it is the same on any number of ranks.
    Every step's loss is recorded; a line is printed every `log_interval` optimizer steps. `metrics`: functions of
    (outputs, targets), by name, for the validation.
    Raises OptionError for what can't be.
    """
    _check_numbers(epochs=epochs, log_interval=log_interval)
    loss = _make_loss(loss)
    train_data, validation_data = _make_data(train, validation)
    batch_size = _batch_size(run, train_data, batch_size_per_gpu, effective_batch_size)
    module = make_model(model)
    ready_model, ready_optimizer, loader = run.prepare(
        module,
        make_optimizer(optimizer, module, learning_rate),
        make_loader(train_data, batch_size, shuffle=True, num_workers=num_workers),
    )
    _prepare_scheduler(run, scheduler, ready_optimizer, _num_steps(run, loader, epochs))
    validate: Callable[[], dict[str, float]] | None = None
    if validation_data is not None:
        held_out = run.prepare(make_loader(validation_data, batch_size, shuffle=False, num_workers=num_workers))

        def validate() -> dict[str, float]:
            return evaluate(run.accelerator, ready_model, held_out, loss, metrics)

    diary = _Diary(run, epochs, log_interval)
    ready_model.train()
    for batch in run.batches(loader, epochs=epochs):
        value = forward(ready_model, loss, batch)[0]
        run.step(value)
        diary.note(value.detach(), num_samples(batch))
        if run.accelerator.gradient_state.end_of_dataloader:
            diary.end_epoch(validate)
    trained = run.accelerator.unwrap_model(ready_model, keep_fp32_wrapper=False).cpu()
    return FitResult(diary.history, best_epoch(diary.history), trained)


def _check_numbers(**numbers: Any) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise OptionError(f"{name} is {number!r}; it takes a whole number from 1 on")


def _make_loss(loss: Any) -> Callable[[Any, Any], Any]:
    if loss == "model":
        return own_loss
    if isinstance(loss, str):
        return NamedLoss(loss)
    made = loss() if isinstance(loss, type) else loss
    if not callable(made):
        raise OptionError(f"loss is {loss!r}; it takes a name or a function of (outputs, targets)")
    return made


def _make_data(train: Any, validation: Any) -> tuple[Any, Any]:
    data = as_data(train, "train")
    if isinstance(validation, float):
        return set_aside(data, validation, _SPLIT_SEED)
    return data, None if validation is None else as_data(validation, "validation")


def _batch_size(run: WorkerRun, data: Any, given: int | None, effective: int | None) -> int:
    """The batch of one rank; accumulation is set for the effective batch that is asked for."""
    sizes = {"batch_size_per_gpu": given, "effective_batch_size": effective}
    for name, size in sizes.items():
        if size is not None:
            _check_numbers(**{name: size})
            if isinstance(data, DataLoader):
                raise OptionError(f"train is a DataLoader with batches of its own; leave {name}={size} out")
    largest = given or DEFAULT_BATCH_SIZE
    if effective is None:
        return largest
    if run.accelerator.gradient_accumulation_steps != 1:
        raise OptionError("effective_batch_size decides how many batches are accumulated; leave accumulate out")
    batch_size, accumulate = divide_batch(effective, largest, run.world_size)
    run.accelerator.gradient_accumulation_steps = accumulate
    run.print(f"{effective} samples a step: {batch_size} a batch, {accumulate} accumulated, {run.world_size} ranks")
    return batch_size


def divide_batch(effective: int, largest: int, world_size: int) -> tuple[int, int]:
    """Samples per batch (at most `largest`) and batches to accumulate, so that all ranks together make `effective`."""
    share, rest = divmod(effective, world_size)
    if rest or not share:
        below = max(share, 1) * world_size
        raise OptionError(f"effective_batch_size={effective} can't be shared by {world_size} ranks; {below} can")
    batch_size = max(size for size in range(1, min(largest, share) + 1) if share % size == 0)
    return batch_size, share // batch_size


def _num_steps(run: WorkerRun, loader: Any, epochs: int) -> int | None:
    """Optimizer steps of the whole training; an accumulation ends with its epoch."""
    try:
        num_batches = len(loader)
    except TypeError:  # an iterable dataset has no length
        return None
    return epochs * -(-num_batches // run.accelerator.gradient_accumulation_steps)


def _prepare_scheduler(run: WorkerRun, scheduler: Any, optimizer: Any, total_steps: int | None) -> None:
    made = make_scheduler(scheduler, optimizer.optimizer, total_steps)
    if made is None:
        return
    # Accelerate's own wrapping steps a schedule once per rank; here its length doesn't depend on the number of ranks.
    prepared = AcceleratedScheduler(made, [optimizer], split_batches=True)
    prepared._is_accelerate_prepared = True
    run.prepare(prepared)


class _Diary:
    """What the training has come to so far: part of the checkpoints, and printed now and then."""

    def __init__(self, run: WorkerRun, epochs: int, log_interval: int) -> None:
        self.history: dict[str, list[float]] = {}
        self._run = run
        self._epochs = epochs
        self._log_interval = log_interval
        self._loss_sum: Tensor | float = 0.0
        self._count = 0
        self._printed_step = 0
        run.register("jtrain.fit", self)

    def state_dict(self) -> dict[str, Any]:
        history = {name: list(values) for name, values in self.history.items()}
        return {"history": history, "loss_sum": float(self._loss_sum), "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.history = state["history"]
        self._loss_sum, self._count = state["loss_sum"], state["count"]

    def note(self, loss: Tensor, size: int) -> None:
        """A batch was trained on; its loss stays on the device."""
        self._loss_sum = self._loss_sum + loss.float() * size
        self._count += size
        step = self._run.global_step
        if step % self._log_interval == 0 and step != self._printed_step:
            self._printed_step = step
            self._print_step(loss)

    def _print_step(self, loss: Tensor) -> None:
        if self._run.rank == 0:
            epoch = f"epoch {self._run.epoch + 1}/{self._epochs}"
            print(f"{epoch}  step {self._run.global_step}  loss {loss.item():.4g}")

    def end_epoch(self, validate: Callable[[], dict[str, float]] | None) -> None:
        """Close the epoch: its mean loss over all ranks, and the validation's values."""
        accelerator = self._run.accelerator
        sums = torch.tensor([float(self._loss_sum), float(self._count)], device=accelerator.device)
        loss_sum, count = accelerator.reduce(sums, "sum").tolist()
        values = {"loss": loss_sum / count if count else float("nan")}
        validated = {f"val/{name}": value for name, value in validate().items()} if validate else {}
        self._run.log({"train/epoch_loss": values["loss"], **validated})
        for name, value in (values | validated).items():
            self.history.setdefault(name, []).append(value)
        self._loss_sum, self._count = 0.0, 0
        shown = "  ".join(f"{name} {value:.4g}" for name, value in (values | validated).items())
        self._run.print(f"epoch {len(self.history['loss'])}/{self._epochs} done  {shown}")
