"""Fetching data never moves the model's random generators, however both draw from them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from jtrain.worker.randomness import Stream, generator_state, seed_all, seeded, set_generator_state

DRAWS = {
    "python": random.random,
    "python gauss": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "numpy normal": np.random.randn,  # made in pairs: the second one lies ready
    "numpy 624": lambda: np.random.bytes(4 * 624)[:4],  # exactly one round of the generator
    "torch": lambda: torch.rand(1).item(),
    "nothing": lambda: None,
}


def play(seed: int, *, with_data: bool) -> list[object]:
    """A random play of draws by the model, with or without batches fetched between them."""
    seed_all(seed)
    choose = random.Random(seed)
    stream = Stream(5)
    drawn = []
    for number in range(60):
        if with_data:
            names = choose.choices(list(DRAWS), k=choose.randrange(3))
            with stream if number % 5 == 0 else seeded(number):
                for name in names:
                    DRAWS[name]()
        else:
            choose.choices(list(DRAWS), k=choose.randrange(3))
        for name in choose.choices(list(DRAWS), k=choose.randrange(3)):
            drawn.append(DRAWS[name]())
        if number == 30:
            set_generator_state(generator_state())
    return drawn


@pytest.mark.parametrize("seed", range(40))
def test_what_the_model_draws_does_not_depend_on_what_the_data_draws(seed: int) -> None:
    assert play(seed, with_data=True) == play(seed, with_data=False)


@pytest.mark.parametrize("name", DRAWS)
def test_a_seeded_block_draws_the_same_whatever_was_drawn_before(name: str) -> None:
    seed_all(1)
    with seeded(3):
        first = [DRAWS[name]() for _ in range(3)]
    np.random.randn()
    random.gauss(0, 1)
    with seeded(3):
        assert [DRAWS[name]() for _ in range(3)] == first


def test_a_generator_of_the_users_own_in_numpy_is_put_back_too() -> None:
    before = np.random.mtrand.get_bit_generator()
    try:
        np.random.mtrand.set_bit_generator(np.random.MT19937(4))
        wanted = np.random.RandomState(np.random.MT19937(4)).rand(3).tolist()
        drawn = []
        for number in range(3):
            with seeded(number):
                np.random.randn()
            drawn.append(np.random.rand())
        assert drawn == wanted
    finally:
        np.random.mtrand.set_bit_generator(before)
