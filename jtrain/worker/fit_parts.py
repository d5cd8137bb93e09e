"""What `jtrain.fit` accepts for its data, model, optimizer and scheduler, made into torch's own objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR, ReduceLROnPlateau
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split

from jtrain.errors import OptionError, nearest

OPTIMIZERS = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer
}
"""torch's optimizers by name in small letters: adamw, sgd, …"""

SCHEDULERS = ("constant", "cosine", "linear", "one_cycle")


def as_data(data: Any, what: str) -> Any:
    """`data` as a dataset or a DataLoader: it is one, or a tuple of arrays, tensors or frames of equal length."""
    if isinstance(data, Tensor | np.ndarray) or hasattr(data, "to_numpy"):
        data = (data,)
    if isinstance(data, tuple):
        tensors = [_as_tensor(item, what) for item in data]
        if len({len(tensor) for tensor in tensors}) != 1:
            raise OptionError(f"{what}: the arrays differ in length: {[len(tensor) for tensor in tensors]}")
        return TensorDataset(*tensors)
    if isinstance(data, DataLoader | Dataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return data
    raise OptionError(f"{what} is {type(data).__name__}; it takes a Dataset, a DataLoader, or a tuple (X, y) of arrays")


def _as_tensor(item: Any, what: str) -> Tensor:
    """One array as a tensor; float64, which is what NumPy computes in, becomes torch's default type."""
    array = item if isinstance(item, Tensor) else np.asarray(item)
    if array.ndim == 0:
        raise OptionError(f"{what}: a tuple is taken for arrays of equal length, but {item!r} has none")
    try:
        tensor = array if isinstance(array, Tensor) else torch.from_numpy(np.ascontiguousarray(array))
    except TypeError as error:
        raise OptionError(f"{what}: {type(item).__name__} can't become a tensor: {error}") from error
    if tensor.dtype is torch.float64:
        return tensor.to(torch.get_default_dtype())
    return tensor.long() if tensor.dtype in (torch.int8, torch.int16, torch.int32, torch.uint16) else tensor


def set_aside(data: Any, share: float, seed: int) -> tuple[Any, Any]:
    """`data` in two parts, the second with `share` of the samples, drawn by `seed`."""
    if isinstance(data, DataLoader | IterableDataset):
        raise OptionError("validation as a share needs `train` to be a dataset with a length, or arrays")
    num_validation = round(len(data) * share)
    if not 0 < share < 1 or not 0 < num_validation < len(data):
        raise OptionError(f"validation={share} of {len(data)} samples leaves one part empty; give a share from 0 to 1")
    generator = torch.Generator().manual_seed(seed)
    train, validation = random_split(data, [len(data) - num_validation, num_validation], generator)
    return train, validation


def make_loader(data: Any, batch_size: int, *, shuffle: bool, num_workers: int) -> DataLoader[Any]:
    """A loader over a dataset; a loader stays as it is."""
    if isinstance(data, DataLoader):
        return data
    return DataLoader(
        data,
        batch_size=batch_size,
        shuffle=shuffle and not isinstance(data, IterableDataset),
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def make_model(model: Any) -> nn.Module:
    """A module, or what a class or function without arguments makes."""
    made = model() if callable(model) and not isinstance(model, nn.Module) else model
    if not isinstance(made, nn.Module):
        raise OptionError(f"model is {made!r}; it takes a torch.nn.Module, or a function that makes one")
    return made


def make_optimizer(optimizer: Any, model: nn.Module, learning_rate: float | None) -> Optimizer:
    """An optimizer of `model`'s parameters, from a name, a class, a function of the parameters, or an optimizer."""
    if isinstance(optimizer, Optimizer):
        return _checked(optimizer, model, learning_rate)
    if isinstance(optimizer, str):
        optimizer = _named_optimizer(optimizer)
    if not callable(optimizer):
        raise OptionError(f"optimizer is {optimizer!r}; it takes a name, an Optimizer class or instance, or a function")
    arguments = {} if learning_rate is None else {"lr": learning_rate}
    if arguments and not _takes(optimizer, "lr"):
        raise OptionError("learning_rate has no effect: the function given as optimizer has no parameter `lr`")
    return optimizer([parameter for parameter in model.parameters() if parameter.requires_grad], **arguments)


def _named_optimizer(name: str) -> type[Optimizer]:
    if name.lower() not in OPTIMIZERS:
        close = nearest(name.lower(), OPTIMIZERS)
        hint = f"did you mean {close!r}?" if close else f"there are {', '.join(OPTIMIZERS)}"
        raise OptionError(f"no optimizer is called {name!r}; {hint}")
    return OPTIMIZERS[name.lower()]


def _checked(optimizer: Optimizer, model: nn.Module, learning_rate: float | None) -> Optimizer:
    own = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) not in own for group in optimizer.param_groups for parameter in group["params"]):
        raise OptionError("the optimizer was made for parameters that are not the model's; give its class or its name")
    if learning_rate is not None:
        raise OptionError("learning_rate has no effect: the optimizer given is made already, with a rate of its own")
    return optimizer


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    try:
        parameters: Iterable[inspect.Parameter] = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return True
    return any(one.name == parameter or one.kind is one.VAR_KEYWORD for one in parameters)


def make_scheduler(scheduler: Any, optimizer: Optimizer, total_steps: int | None) -> LRScheduler | None:
    """A scheduler that is stepped once per optimizer step, from a name, a function of the optimizer, or a scheduler.

    `total_steps` is the number of optimizer steps of the whole training, or None when the data has no known length.
    """
    if scheduler is None or scheduler == "constant":
        return None
    if isinstance(scheduler, str):
        return _named_scheduler(scheduler, optimizer, total_steps)
    made = scheduler if isinstance(scheduler, LRScheduler) else scheduler(optimizer)
    if isinstance(made, ReduceLROnPlateau):
        raise OptionError("ReduceLROnPlateau wants a metric at every step; write the loop in a %%jtrain cell for that")
    if not isinstance(made, LRScheduler) or made.optimizer is not optimizer:
        raise OptionError("scheduler takes a name, or a function (or class) that makes a scheduler for the optimizer")
    return made


def _named_scheduler(name: str, optimizer: Optimizer, total_steps: int | None) -> LRScheduler:
    if name not in SCHEDULERS:
        close = nearest(name, SCHEDULERS)
        hint = f"did you mean {close!r}?" if close else f"there are {', '.join(SCHEDULERS)}"
        raise OptionError(f"no scheduler is called {name!r}; {hint}")
    if total_steps is None:
        raise OptionError(f"scheduler {name!r} needs data of known length; give a function of the optimizer instead")
    if name == "cosine":
        return CosineAnnealingLR(optimizer, T_max=total_steps)
    if name == "linear":
        return LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=total_steps)
    return OneCycleLR(optimizer, max_lr=[group["lr"] for group in optimizer.param_groups], total_steps=total_steps + 1)
