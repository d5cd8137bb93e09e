"""What a config may say: the sections `model`, `data`, `training` and `resource`, and their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from jtrain.errors import ConfigError
from jtrain.options import RunOptions


class Section(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(Section):
    """A model, dataset, loss, optimizer or scheduler: what it is called, and what it is called with.

    `name` is an import path (`package.module:Name`), one of jtrain's own names (`adamw`, `cross_entropy`), or the name
    of a variable of the notebook. In YAML a plain text stands for a part without arguments.
    """

    name: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class DataSection(Section):
    """`validation` is a dataset, or the share of `train` that is set aside for it."""

    train: Part
    validation: Part | float | None = None
    num_workers: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"train": value} if isinstance(value, str) else value


class TrainingSection(Section):
    """`learning_rate` None: the optimizer's own default. `log_interval` counts optimizer steps."""

    batch_size_per_gpu: Annotated[int | None, Field(ge=1)] = None
    effective_batch_size: Annotated[int | None, Field(ge=1)] = None
    epochs: Annotated[int, Field(ge=1)] = 1
    learning_rate: Annotated[float | None, Field(gt=0)] = None
    log_interval: Annotated[int, Field(ge=1)] = 10
    use_mixed_precision: bool | Literal["fp16", "bf16"] = False
    gradient_accumulation_steps: Annotated[int, Field(ge=1)] = 1
    clip_grad: Annotated[float | None, Field(gt=0)] = None
    seed: int | None = None
    loss: Part = Part(name="cross_entropy")
    optimizer: Part = Part(name="adamw")
    scheduler: Part | None = None


_OPTION_OF_TRAINING = {
    "use_mixed_precision": "precision",
    "gradient_accumulation_steps": "accumulate",
    "clip_grad": "clip_grad",
    "seed": "seed",
}
"""Keys of `training` that are run options under another name."""


class Config(Section):
    """A whole config; `resource` takes every run option. Objects of the notebook may be named where a `Part` stands."""

    model: Part | None = None
    data: DataSection | None = None
    training: TrainingSection = TrainingSection()
    resource: RunOptions = RunOptions()

    def parts(self) -> Iterator[tuple[str, Part]]:
        """Every part with the name of its place, for example ("training.loss", …)."""
        for section in ("model", "data", "training"):
            value = getattr(self, section)
            if isinstance(value, Part):
                yield section, value
            for field in type(value).model_fields if value is not None else ():
                if isinstance(part := getattr(value, field), Part):
                    yield f"{section}.{field}", part

    def run_options(self) -> dict[str, Any]:
        """The run options that the config sets, by name: `resource`, and what `training` says in its own words.

        Raises ConfigError when both say something, and not the same.
        """
        options = {name: getattr(self.resource, name) for name in self.resource.model_fields_set}
        given = self.training.model_fields_set
        for key, option in _OPTION_OF_TRAINING.items():
            if key not in given:
                continue
            value = getattr(self.training, key)
            if key == "use_mixed_precision" and isinstance(value, bool):
                value = "bf16" if value else "no"
            if options.setdefault(option, value) != value:
                raise ConfigError(f"training.{key} says {value!r}, but resource.{option} says {options[option]!r}")
        return options

    def as_dict(self) -> dict[str, Any]:
        """What was set, as plain values (`run.config`, the spec)."""
        return self.model_dump(mode="json", exclude_unset=True)
