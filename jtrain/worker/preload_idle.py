"""Imports what torch and Accelerate would import during a rank's first steps, for the zygote to do while it is idle."""

import importlib.util

import torch._dynamo

if importlib.util.find_spec("torchdata") is not None:
    import torchdata.stateful_dataloader  # noqa: F401 - Accelerate uses it where it is installed

__all__ = ["torch"]
