"""Cells that tests run, and how they run them."""

from __future__ import annotations

from typing import Any

from jtrain.launching import launch_cell
from jtrain.options import make_options
from jtrain.run import Run

TRAINING = """
import torch, time
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(0)
inputs = torch.randn(64, 4, generator=generator)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model, optimizer, loader = run.prepare(model, optimizer, loader)
for given, wanted in run.batches(loader, epochs=EPOCHS):
    loss = torch.nn.functional.mse_loss(model(given), wanted)
    run.step(loss)
    time.sleep(PAUSE_S)
"""
"""8 batches an epoch on each of two ranks."""


def start(source: str, namespace: dict[str, Any] | None = None, **options: Any) -> Run:
    """A run of `source` on the CPU, two ranks unless told otherwise."""
    options = {"gpus": "none", "nproc": 2, "seed": 1, **options}
    return launch_cell(source, namespace or {}, make_options(**options), filename="Cell In[1]")


def train(epochs: int = 3, pause_s: float = 0.0, **options: Any) -> Run:
    """A run of TRAINING."""
    return start(TRAINING, {"EPOCHS": epochs, "PAUSE_S": pause_s, "__name__": "__main__"}, **options)
