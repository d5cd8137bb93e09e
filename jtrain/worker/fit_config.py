"""From a YAML config to the adaptive trainer: parts are found by name and made in the worker."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from jtrain.config import Config, Part
from jtrain.config.parts import find_object
from jtrain.domain.fit_result import FitResult
from jtrain.errors import ConfigError
from jtrain.worker.fit import fit
from jtrain.worker.fit_parts import OPTIMIZERS, SCHEDULERS
from jtrain.worker.handle import WorkerRun
from jtrain.worker.losses import NAMES as LOSSES
from jtrain.worker.losses import NamedLoss

_SAME = ("epochs", "batch_size_per_gpu", "effective_batch_size", "learning_rate", "log_interval")
"""Keys of `training` that `fit` knows under the same name."""


def fit_from_config(
    run: WorkerRun, config: Config, namespace: Mapping[str, Any] | None = None, **replacing: Any
) -> FitResult:
    """Train what `config` describes. `namespace`: variables of the notebook that it may name. `replacing`: options of
    `fit` that go before the config's. Raises ConfigError for a name that means nothing, and for what `fit` refuses.
    """
    found = _Finder(namespace or {})
    training = config.training
    given = training.model_fields_set
    options: dict[str, Any] = {name: getattr(training, name) for name in _SAME if name in given}
    if config.model is not None:
        options["model"] = found.factory("model", config.model)
    if config.data is not None:
        options["train"] = found.made("data.train", config.data.train)
        options["num_workers"] = config.data.num_workers
        if config.data.validation is not None:
            options["validation"] = found.validation(config.data.validation)
    options["loss"] = found.loss(training.loss)
    options["optimizer"] = found.optimizer(training.optimizer)
    if training.scheduler is not None:
        options["scheduler"] = found.scheduler(training.scheduler)
    options |= replacing
    for name, section in (("model", "model"), ("train", "data")):
        if name not in options:
            raise ConfigError(f"the config has no section `{section}`, so there is nothing to train; add it")
    return fit(run, **options)


class _Finder:
    """Finds and makes parts."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def made(self, where: str, part: Part) -> Any:
        """What the part's class or function makes; an object of the notebook that is no function stays as it is."""
        found = self.factory(where, part)
        return found() if callable(found) and not hasattr(found, "__getitem__") else found

    def factory(self, where: str, part: Part, known: Mapping[str, Any] | None = None, *, whole: bool = True) -> Any:
        """The part's class or function with its arguments filled in. `whole`: it needs no others."""
        found = find_object(part.name, where, known or {}, self._namespace)
        if not part.args and not whole:
            return found
        if not inspect.isroutine(found) and not isinstance(found, type):
            if part.args:
                raise ConfigError(f"{where}: {part.name} is a {type(found).__name__}, which takes no args")
            return found
        _check_arguments(where, found, part.args, whole)
        return functools.partial(found, **part.args)

    def validation(self, given: Part | float) -> Any:
        return self.made("data.validation", given) if isinstance(given, Part) else given

    def loss(self, part: Part) -> Any:
        if part.name not in self._namespace:
            if part.name in LOSSES:
                return NamedLoss(part.name, part.args)
            if part.name == "model":
                return part.name
        known = dict.fromkeys(LOSSES)
        found = find_object(part.name, "training.loss", known, self._namespace)
        if isinstance(found, type):
            return self.made("training.loss", part)
        return functools.partial(found, **part.args) if part.args else found

    def optimizer(self, part: Part) -> Any:
        return self.factory("training.optimizer", part, OPTIMIZERS, whole=False)

    def scheduler(self, part: Part) -> Any:
        if part.name in SCHEDULERS and part.name not in self._namespace:
            if part.args:
                raise ConfigError(f"training.scheduler: {part.name} takes no args; name a scheduler class instead")
            return part.name
        return self.factory("training.scheduler", part, dict.fromkeys(SCHEDULERS), whole=False)


def _check_arguments(where: str, function: Any, arguments: Mapping[str, Any], whole: bool) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in callables have none
        return
    try:
        (signature.bind if whole else signature.bind_partial)(**arguments)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}; it is called as {function.__name__}{signature}") from error
