"""What a checkpoint holds, and in which order it is put back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate import Accelerator

from jtrain.checkpointing.checkpointer import Fill
from jtrain.checkpointing.spread import is_spread, spread_like
from jtrain.checkpointing.staging import Slot
from jtrain.errors import CheckpointError, nearest
from jtrain.worker.randomness import generator_state, set_generator_state

_CONTAINERS = (list, dict, set, deque)


def check_registrable(name: str, value: object) -> None:
    """Raises TypeError for an object whose state can't be saved and put back."""
    if isinstance(value, _CONTAINERS) or (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
        return
    raise TypeError(
        f"run.register({name!r}, …): a {type(value).__name__} has no state_dict and load_state_dict, "
        "and is no list, dict, set or deque"
    )


class TrainingState:
    """Everything that training changes: what the accelerator has prepared, in that order, and what was registered."""

    def __init__(self) -> None:
        self.registered: dict[str, Any] = {}

    def shared(self, accelerator: Accelerator) -> dict[str, Any]:
        """What is the same on all ranks."""
        scaler = accelerator.scaler
        return {
            "models": [accelerator.unwrap_model(model).state_dict() for model in accelerator._models],
            "optimizers": [optimizer.state_dict() for optimizer in accelerator._optimizers],
            "schedulers": [scheduler.state_dict() for scheduler in accelerator._schedulers],
            "kinds": _kinds(accelerator),
            "scaler": scaler.state_dict() if scaler is not None else {},
            "gradients": [
                _gradients(model, are_spread=True) for model in accelerator._models if not accelerator.sync_gradients
            ],
        }

    @staticmethod
    def is_spread(accelerator: Accelerator) -> bool:
        """Whether a model's parameters are spread over the ranks (`fully_shard`, tensor parallelism)."""
        return any(is_spread(parameter) for model in accelerator._models for parameter in model.parameters())

    def own(self, accelerator: Accelerator, window: Sequence[torch.Tensor]) -> dict[str, Any]:
        """What belongs to this rank: generators, the gradients of an accumulation that is under way, its losses so far,
        and the registered objects."""
        in_accumulation = not accelerator.sync_gradients
        return {
            "generators": generator_state(),
            "gradients": [_gradients(model, are_spread=False) for model in accelerator._models]
            if in_accumulation
            else [],
            "accumulation_step": accelerator.step,
            "window": list(window),
            "registered": {name: _state_of(value) for name, value in self.registered.items()},
        }

    def restore(
        self, accelerator: Accelerator, shared: Mapping[str, Any], own: Mapping[str, Any], fill: Fill
    ) -> list[torch.Tensor]:
        """Put everything back, the generators last; returns the losses of the accumulation window. `fill` puts the
        tensors into what is in `shared`.

        Raises CheckpointError naming the layer, or the registered object, that doesn't fit.
        """
        _check_kinds(accelerator, shared["kinds"])
        for model, state in zip(accelerator._models, shared["models"], strict=True):
            _load_model(accelerator.unwrap_model(model), state, fill)
        for optimizer, state in zip(accelerator._optimizers, shared["optimizers"], strict=True):
            _load_optimizer(optimizer, fill(state, _like_parameters(optimizer, state)))
        for scheduler, state in zip(accelerator._schedulers, shared["schedulers"], strict=True):
            scheduler.load_state_dict(fill(state, {}))
        if accelerator.scaler is not None and shared["scaler"]:
            accelerator.scaler.load_state_dict(fill(shared["scaler"], {}))
        self._restore_registered(own["registered"])
        for gradients in (own["gradients"], shared.get("gradients", ())):
            for model, some in zip(accelerator._models, gradients, strict=False):
                _set_gradients(model, fill(some, _like(dict(model.named_parameters()), some)))
        accelerator.step = own["accumulation_step"]
        set_generator_state(own["generators"])
        return [loss.to(accelerator.device) for loss in own["window"]]

    def _restore_registered(self, saved: Mapping[str, Any]) -> None:
        for name in saved:
            if name not in self.registered:
                guess = nearest(name, self.registered)
                hint = f"; has {guess!r} been renamed from it?" if guess else ""
                raise CheckpointError(
                    f"the checkpoint holds the state of {name!r}, which this cell does not run.register{hint}"
                )
        for name, value in self.registered.items():
            if name not in saved:
                raise CheckpointError(
                    f"run.register({name!r}, …) is new: the checkpoint has no state for it "
                    f"(it has {', '.join(map(repr, saved)) or 'none'}); take it out, or start afresh without --resume"
                )
            _put_back(name, value, saved[name])


def _kinds(accelerator: Accelerator) -> dict[str, list[str]]:
    """Of how many models, and of which optimizers and schedulers, the state is."""
    return {
        "models": ["model" for _ in accelerator._models],
        "optimizers": [type(optimizer.optimizer).__name__ for optimizer in accelerator._optimizers],
        "schedulers": [type(scheduler.scheduler).__name__ for scheduler in accelerator._schedulers],
    }


def _check_kinds(accelerator: Accelerator, saved: Mapping[str, list[str]]) -> None:
    for kind, mine in _kinds(accelerator).items():
        theirs = saved[kind]
        if len(mine) != len(theirs):
            raise CheckpointError(
                f"the checkpoint holds {len(theirs)} {kind} and the cell has prepared {len(mine)}: "
                "prepare the same ones, in the same order"
            )
        for here, there in zip(mine, theirs, strict=True):
            if here != there:
                raise CheckpointError(
                    f"one of the {kind} is a {here} here and a {there} in the checkpoint; "
                    "start afresh without --resume, or put the old one back"
                )


def _state_of(value: Any) -> Any:
    """A plain copy of a container: a defaultdict's function, say, isn't part of its state."""
    for kind in _CONTAINERS:
        if isinstance(value, kind):
            return kind(value)
    return value.state_dict()


def _put_back(name: str, value: Any, state: Any) -> None:
    kind = next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)
    if kind is None:
        value.load_state_dict(_spread(state, value.state_dict()))
        return
    if not isinstance(state, kind):
        raise CheckpointError(
            f"run.register({name!r}, …) is a {kind.__name__} here and a {type(state).__name__} in the checkpoint"
        )
    value.clear()
    if isinstance(value, (list, deque)):
        value.extend(state)
    else:
        value.update(state)


def _gradients(model: torch.nn.Module, *, are_spread: bool) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.detach()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and is_spread(parameter.grad) is are_spread
    }


def _set_gradients(model: torch.nn.Module, gradients: Mapping[str, torch.Tensor]) -> None:
    for name, parameter in model.named_parameters():
        if name in gradients:
            parameter.grad = gradients[name].to(parameter.device)


def _load_model(model: torch.nn.Module, state: dict[str, Any], fill: Fill) -> None:
    mine = model.state_dict()
    missing, unknown = sorted(mine.keys() - state.keys()), sorted(state.keys() - mine.keys())
    if missing or unknown:
        raise CheckpointError(
            f"the model is not the one in the checkpoint: new here: {', '.join(missing[:5]) or 'nothing'}; "
            f"only there: {', '.join(unknown[:5]) or 'nothing'}; "
            "start afresh without --resume, or put the old model back"
        )
    for name, value in state.items():
        if isinstance(value, (torch.Tensor, Slot)) and tuple(mine[name].shape) != tuple(value.shape):
            raise CheckpointError(
                f"layer {name!r} has shape {tuple(mine[name].shape)} here and {tuple(value.shape)} in the checkpoint; "
                "start afresh without --resume, or put the old shape back"
            )
    model.load_state_dict(fill(state, _like(mine, state)))


def _like(mine: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """For the Slots in `saved`: what is here of the same name, where that is spread over ranks."""
    return {
        slot.name: mine[name]
        for name, slot in saved.items()
        if isinstance(slot, Slot) and is_spread(mine.get(name)) and tuple(mine[name].shape) == slot.shape
    }


def _like_parameters(optimizer: Any, state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """For the Slots in an optimizer's state: the parameter that each belongs to, where it has the same shape."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    found: dict[str, torch.Tensor] = {}
    for number, parameter in zip(numbers, parameters, strict=False):
        values = state["state"].get(number, {})
        found |= _like(dict.fromkeys(values, parameter), values)
    return found


def _spread(saved: Any, mine: Any) -> Any:
    """`saved` with whole tensors spread over the ranks as those in the same places of `mine` are."""
    if is_spread(mine) and isinstance(saved, torch.Tensor) and not is_spread(saved):
        return spread_like(saved, mine)
    if isinstance(saved, dict) and isinstance(mine, Mapping):
        for key in saved.keys() & mine.keys():
            saved[key] = _spread(saved[key], mine[key])
    return saved


def _load_optimizer(optimizer: Any, state: Mapping[str, Any]) -> None:
    try:
        optimizer.load_state_dict(state)
    except ValueError as error:
        raise CheckpointError(f"the optimizer doesn't fit the one in the checkpoint: {error}") from error
