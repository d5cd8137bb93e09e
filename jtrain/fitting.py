"""`jtrain.fit`: the adaptive trainer in one call, and runs of a YAML config."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrain.config import Config, load_config
from jtrain.domain.fit_result import FitResult
from jtrain.errors import JtrainError, OptionError, nearest
from jtrain.interrupts import Interrupts
from jtrain.launching import launch
from jtrain.options import RunOptions
from jtrain.run import Run
from jtrain.view.notebook import NotebookView
from jtrain.view.plain import PlainView
from jtrain.view.terminal import TerminalView
from jtrain.view.watching import View, Watch

if TYPE_CHECKING:
    from jtrain.worker.handle import WorkerRun

TRAINING_OPTIONS = (
    "model",
    "train",
    "loss",
    "optimizer",
    "validation",
    "epochs",
    "batch_size_per_gpu",
    "effective_batch_size",
    "learning_rate",
    "log_interval",
    "scheduler",
    "metrics",
    "num_workers",
)
"""Options of `jtrain.worker.fit.fit`."""

_CONFIG_WORDS = {"use_mixed_precision": "precision", "gradient_accumulation_steps": "accumulate"}
"""Words of a config's `training` section that are run options under another name."""


def fit(config: str | Path | Config | None = None, **options: Any) -> Any:
    """Train a model, and return a `FitResult` with its history, its best epoch and the trained model.

        result = jtrain.fit(model=Net(), train=(X, y), loss="cross_entropy", validation=0.2, epochs=5, nproc=2)

    In a `%%jtrain` cell, or in a program that `jtrain run` has started, it trains in that run, on all its ranks, what
    the run's `--config` says, if it has one.
    Elsewhere it starts a run of its own, shows it, and waits; with `background=True` it returns the `Run` at once.

    Options of the training: `model`, `train`, `loss`, `optimizer`, `validation`, `epochs`, `batch_size_per_gpu`,
    `effective_batch_size`, `learning_rate`, `log_interval`, `scheduler`, `metrics`, `num_workers`; see
    `jtrain.worker.fit.fit`. All others are options of the run, as of `%%jtrain`: `gpus`, `nproc`, `precision`, ….
    `config`: a YAML file that says the same; options given here go before it, and `set=[…]` overrides single keys.

    Raises OptionError (ConfigError for the file) for what can't be, WorkerError when the training fails, and
    RunInterrupted when the wait was interrupted.
    """
    recorded: dict[str, Any] = {}
    if config is not None and not isinstance(config, Config):
        recorded = {"config": str(config), "set": _overrides(options.pop("set", ()))}
        config = load_config(config, recorded["set"])
    training, of_run = split_options(options)
    here = _current_run()
    if here is not None:
        return _fit_here(here, config, training, of_run)
    of_run |= recorded
    interrupts = Interrupts()
    with interrupts.installed():
        run = _launch(config, training, of_run)
        if of_run.get("background"):
            return run
        Watch(run, _view(run), interrupts).wait()
    return run.result()


def run_config(config: Config, /, **options: Any) -> Run:
    """Start a run that trains what `config` describes. `options`: run options that go before the config's.

    Among these, `config` (the file) and `set` are only recorded. Modules in the current folder can be named in it.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _launch(config, {}, options)


def _view(run: Run) -> View:
    if "ipykernel" in sys.modules:
        # Called from a cell's own code, which holds the kernel until it returns: no browser could answer.
        return NotebookView(run, may_ask=False)
    return TerminalView(run) if sys.stdout.isatty() else PlainView(run)


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the training, and options of the run. Raises OptionError, with the nearest, for others."""
    training: dict[str, Any] = {}
    of_run: dict[str, Any] = {}
    for name, value in options.items():
        if name in TRAINING_OPTIONS:
            training[name] = value
        elif name in RunOptions.model_fields:
            of_run[name] = value
        elif name in _CONFIG_WORDS:
            of_run[_CONFIG_WORDS[name]] = {True: "bf16", False: "no"}.get(value, value) if "mixed" in name else value
        else:
            close = nearest(name, [*TRAINING_OPTIONS, *RunOptions.model_fields, *_CONFIG_WORDS])
            raise OptionError(f"jtrain.fit has no option {name!r}" + (f"; did you mean {close!r}?" if close else ""))
    return training, of_run


def _overrides(given: str | Sequence[str] | Mapping[str, Any]) -> Sequence[str]:
    if isinstance(given, Mapping):
        return [f"{key}={value}" for key, value in given.items()]
    return [given] if isinstance(given, str) else given


def _current_run() -> WorkerRun | None:
    """The handle of the run that this process is a rank of, or None outside of a run."""
    if "JTRAIN_RUN_ID" not in os.environ:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise JtrainError("jtrain.fit starts its own processes: run this script with python or `jtrain run`")
        return None
    from jtrain.worker.handle import WorkerRun

    run = vars(sys.modules["__main__"]).get("run")
    if not isinstance(run, WorkerRun):
        raise JtrainError("jtrain.fit needs the cell's `run`, but that name means something else now; rename yours")
    return run


def _fit_here(run: WorkerRun, config: Config | None, training: Mapping[str, Any], of_run: Mapping[str, Any]) -> Any:
    if of_run:
        names = ", ".join(of_run)
        raise OptionError(f"{names}: inside a run these are decided; give them to %%jtrain or `jtrain run` instead")
    if config is None and run.config:
        config = Config.model_validate(dict(run.config))
    elif config is not None:
        _check_decided(run, config)
    return _train(run, config, vars(sys.modules["__main__"]), training)


def _check_decided(run: WorkerRun, config: Config) -> None:
    """A config that is read inside of a run comes too late for options that change what is trained."""
    decided = {
        "precision": run.accelerator.mixed_precision,
        "accumulate": run.accelerator.gradient_accumulation_steps,
    }
    for name, wanted in config.run_options().items():
        if name in decided and wanted != decided[name]:
            raise OptionError(
                f"the config wants {name}={wanted!r}, but this run has {decided[name]!r}; start it with --config"
            )


def _launch(config: Config | None, training: Mapping[str, Any], of_run: Mapping[str, Any]) -> Run:
    options = {**(config.run_options() if config is not None else {}), **of_run}
    namespace = _named_objects(config) if config is not None else {}
    if config is None:
        missing = [name for name in ("model", "train") if name not in training]
        if missing:
            raise OptionError(f"jtrain.fit needs {' and '.join(missing)}; see help(jtrain.fit)")
    given = {"config": config, "namespace": namespace, "training": dict(training)}
    return launch(_train, kwargs=given, **options)


def _named_objects(config: Config) -> dict[str, Any]:
    """The variables of the notebook that the config names."""
    main = vars(sys.modules["__main__"])
    return {part.name: main[part.name] for _, part in config.parts() if part.name in main}


def _train(
    run: WorkerRun, config: Config | None, namespace: Mapping[str, Any], training: Mapping[str, Any]
) -> FitResult:
    """What every rank does."""
    from jtrain.worker.fit import fit as fit_on_rank
    from jtrain.worker.fit_config import fit_from_config

    if config is None:
        return fit_on_rank(run, **training)
    return fit_from_config(run, config, namespace, **training)
