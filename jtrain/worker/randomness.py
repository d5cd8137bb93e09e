"""Random generators: the global ones of a rank, and separate streams that leave them untouched."""

from __future__ import annotations

import ctypes
import random
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.random import mtrand


def mix(*numbers: int) -> int:
    """A 63-bit seed from several numbers, the same on every machine; different inputs give unrelated seeds."""
    text = ",".join(map(str, numbers)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") >> 1


def seed_all(seed: int) -> None:
    """Seed Python's, numpy's and torch's global generators, those of all GPUs too."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _seed_host(seed: int) -> None:
    """The same without the GPUs, whose generators belong to the model."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


class _Numpy:
    """numpy's global generator, saved and put back every batch, and so without the 30 µs that numpy takes for each.

    As long as its 2,500 bytes are those that were last put back, nobody has drawn from it, and the state from then
    still holds; unless a second normal number lies ready (numpy makes them in pairs), whose use changes no byte.
    """

    _SIZE = 625 * 4  # struct mt19937_state: 624 words and a position (numpy/random/src/mt19937)
    _HAS_GAUSS = 3  # index in the tuple of RandomState.get_state

    def __init__(self) -> None:
        self._bytes = b""
        self._state: Any = None

    def save(self) -> Any:
        """The state; valid for `restore` until the generator is replaced by another."""
        generator = mtrand.get_bit_generator()
        if not isinstance(generator, np.random.MT19937):
            return None, np.random.get_state(), b""
        now = ctypes.string_at(generator.ctypes.state_address, self._SIZE)
        if now != self._bytes or self._state is None or self._state[self._HAS_GAUSS]:
            self._bytes, self._state = now, np.random.get_state()
        return generator, self._state, self._bytes

    def restore(self, saved: Any) -> None:
        """Put a state of `save` back."""
        generator, state, content = saved
        if generator is not mtrand.get_bit_generator() or state[self._HAS_GAUSS]:
            np.random.set_state(state)
        else:
            np.random.seed(0)  # drops a normal number that lies ready
            ctypes.memmove(generator.ctypes.state_address, content, self._SIZE)

    def forget(self) -> None:
        """The state was set from outside."""
        self._state = None


_numpy = _Numpy()


def _host_state() -> tuple[Any, Any, torch.Tensor]:
    return random.getstate(), _numpy.save(), torch.get_rng_state()


def _set_host_state(state: tuple[Any, Any, torch.Tensor]) -> None:
    random.setstate(state[0])
    _numpy.restore(state[1])
    torch.set_rng_state(state[2])


def generator_state() -> dict[str, Any]:
    """The state of every global generator of this process, in types that load without pickle."""
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    version, numbers, gauss = random.getstate()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
    }


def set_generator_state(state: dict[str, Any]) -> None:
    """Put every global generator back to `state`. GPUs beyond those that it knows keep their own."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    _numpy.forget()
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        for index, device_state in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(device_state, index)


class seeded:
    """Run a block with the host's generators seeded by `seed`, and put them back afterwards."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __enter__(self) -> None:
        self._before = _host_state()
        _seed_host(self._seed)

    def __exit__(self, *_: object) -> None:
        _set_host_state(self._before)


class Stream:
    """A random stream beside the global one: inside `with stream:` the host's generators go on where it left off."""

    def __init__(self, seed: int) -> None:
        with seeded(seed):
            self._own = _host_state()

    def __enter__(self) -> None:
        self._outer = _host_state()
        _set_host_state(self._own)

    def __exit__(self, *_: object) -> None:
        self._own = _host_state()
        _set_host_state(self._outer)
