"""How the objects around a model travel."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from jtrain.capture import rebuild

if TYPE_CHECKING:
    from jtrain.capture.reducer import Reducer


_MARK, _FORWARD = "_is_accelerate_prepared", "_original_forward"
"""Set by `accelerate.Accelerator.prepare`; the second when `forward` was replaced for mixed precision."""


def reduce_torch_module(reducer: Reducer, module: Any) -> Any:
    """A module without what an Accelerator left on it: it would take the module for one that it has prepared already,
    and not spread it over the ranks."""
    if type(module).__module__ == "torch.nn.utils.parametrize":
        # Its own __getstate__ refuses, since the class is made for this one module; here the class travels, too.
        return copyreg.__newobj__, (type(module),), dict(vars(module))  # type: ignore[attr-defined]
    reduced = module.__reduce_ex__(5)
    state = reduced[2] if len(reduced) > 2 else None
    if not isinstance(state, dict) or (_MARK not in state and _FORWARD not in state):
        return reduced
    gone = {_MARK, _FORWARD, *(["forward"] if _FORWARD in state else [])}
    return *reduced[:2], {name: value for name, value in state.items() if name not in gone}, *reduced[3:]


def reduce_loader(reducer: Reducer, loader: Any) -> Any:
    """A DataLoader that was iterated in the notebook may hold on to its workers."""
    function, arguments, state, *rest = loader.__reduce_ex__(5)
    if isinstance(state, dict) and state.get("_iterator") is not None:
        state = {**state, "_iterator": None}
    return function, arguments, state, *rest


def reduce_scheduler(reducer: Reducer, scheduler: Any) -> Any:
    """A learning rate scheduler watches `optimizer.step`; pickled the usual way it would warn that it no longer can."""
    function, arguments, state, *rest = scheduler.__reduce_ex__(5)
    if any(rest) or not isinstance(state, dict) or "optimizer" not in state:
        return function, arguments, state, *rest
    return function, arguments, state, None, None, rebuild.fill_scheduler
