"""Batches that are the same whatever was interrupted.

A batch is a function of (seed, epoch, number): which samples are in it, and every random number drawn while they
are fetched. The seed is that of the loop over the loader, so it depends on where in the program that loop stands and
on nothing that happened before. The order comes from samplers seeded by (seed, epoch) alike on all ranks. Fetching
runs under generators seeded by the batch's own stamp, in whichever process it happens, and leaves the model's
generators alone. So neither the number of DataLoader workers nor prefetching nor a resume changes a batch, and going
on at batch k costs no fetching.

The sharding over ranks, the move to the device and the look-ahead are Accelerate's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.data_loader import BatchSamplerShard, DataLoaderShard, IterableDatasetShard
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from jtrain.errors import CheckpointError
from jtrain.worker.elastic import Piece, Spread, rows, shard_for
from jtrain.worker.randomness import Stream, mix, seeded

_SEEDABLE = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_ORDER, _LOADER, _FETCH, _ITERABLE = range(4)
"""Which use of the seed: each gets numbers of its own."""


class Stamp(NamedTuple):
    """What a batch's random numbers depend on."""

    seed: int
    epoch: int
    number: int


class StampedIndices(list[int]):
    """The indices of a batch, with its stamp; travels to DataLoader workers as it is."""

    stamp: Stamp

    def __reduce__(self) -> tuple[Any, ...]:
        return _restamp, (list(self), tuple(self.stamp))


def _restamp(indices: list[int], stamp: tuple[int, int, int]) -> StampedIndices:
    stamped = StampedIndices(indices)
    stamped.stamp = Stamp(*stamp)
    return stamped


class _Joined:
    """A batch that was joined where its samples were fetched."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch


class SeededCollate:
    """A user's `collate_fn`; for a stamped batch the dataset has called it already."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Any:
        return samples.batch if type(samples) is _Joined else self.collate(samples)


class SeededDataset(Dataset[Any]):
    """A map-style dataset whose batches are fetched, and joined if `collate` is given, under generators seeded by their
    stamp. Looks like the original."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any] | None = None) -> None:
        self.dataset = dataset
        self._collate = collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: list[int]) -> Any:
        stamp = getattr(indices, "stamp", None)
        if stamp is None:
            return self._fetch(indices)
        with seeded(mix(_FETCH, *stamp)):
            samples = self._fetch(list(indices))
            return samples if self._collate is None else _Joined(self._collate(samples))

    def _fetch(self, indices: list[int]) -> Any:
        fetch = getattr(self.dataset, "__getitems__", None)
        return [self.dataset[index] for index in indices] if fetch is None else fetch(indices)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("dataset", "_collate"):
            raise AttributeError(name)
        return getattr(self.dataset, name)


class StampingSampler:
    """The batches of one rank, stamped; can start at any batch of an epoch without fetching those before it.

    `whole` says how the batches are shared out, whatever the number of ranks.
    """

    def __init__(self, whole: BatchSamplerShard, size: int, rank: int, seed: int) -> None:
        self.whole = whole
        self.inner = shard_for(whole, whole.batch_sampler, size, rank)
        self.seed = seed
        self.epoch = 0
        self.pieces: deque[Piece] = deque()
        """Of a run with another number of ranks than it began with: what the batches given so far are, oldest first."""
        self._next: tuple[int, int, int, Spread | None] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Tell the user's own samplers, and choose the order of the next iteration unless `begin_at` does."""
        self.epoch = epoch
        for sampler in _chain(self.inner):
            if not isinstance(sampler, _SEEDABLE) and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)

    def begin_at(self, seed: int, epoch: int, batch: int, spread: Spread | None = None) -> None:
        """Let the next iteration be the one of (`seed`, `epoch`), from number `batch` on."""
        self._next = seed, epoch, batch, spread
        self.pieces.clear()

    def num_rows(self, ranks: int) -> int:
        """Batches that each of `ranks` ranks would get in an epoch. Raises TypeError when that is unknown."""
        return len(shard_for(self.whole, self.whole.batch_sampler, ranks, 0))

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[StampedIndices]:
        # Looked at when the first batch is asked for: a DataLoader with workers calls `iter` twice and uses the second.
        (seed, epoch, start, spread), self._next = self._next or (self.seed, self.epoch, 0, None), None
        order = mix(_ORDER, seed, epoch)
        if spread is not None:
            dealt = self._ordered(order, rows(self.whole, spread.layout.ranks))
            for piece in spread.pieces(dealt, start, self.inner.process_index):
                self.pieces.append(piece)
                number = mix(piece.number, piece.slice) if piece.slice else piece.number
                yield _restamp(list(piece.indices), (seed, epoch, number))
            return
        for number, indices in enumerate(self._ordered(order, self.inner)):
            if number >= start:
                yield _restamp(list(indices), (seed, epoch, number))

    def _ordered(self, order: int, batches: Iterable[Any]) -> Iterable[Any]:
        """The inner `batches`; a sampler of unknown kind draws its random numbers from a stream of its own."""
        for sampler in _chain(self.inner):
            if isinstance(sampler, _SEEDABLE):
                sampler.generator = torch.Generator().manual_seed(order)
        known = (*_SEEDABLE, SequentialSampler, BatchSampler, BatchSamplerShard)
        if all(type(sampler) in known for sampler in _chain(self.inner)):
            yield from batches
            return
        yield from drawn_from(Stream(order), batches)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("whole", "inner"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def _chain(sampler: Any) -> Iterator[Any]:
    """A sampler and those it wraps."""
    while sampler is not None:
        yield sampler
        sampler = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)


class Feed:
    """A prepared loader (or any other iterable), the `index`-th of this rank: iterates an epoch from any batch on.

    `last_loop`: the ordinal of the last outermost loop over it, None before the first.
    """

    def __init__(self, loader: Any, index: int) -> None:
        self.loader = loader
        self.index = index
        self.last_loop: int | None = None
        self._over = 0
        sampler = getattr(loader, "batch_sampler", None)
        self._sampler = sampler if isinstance(sampler, StampingSampler) else None

    @property
    def epoch(self) -> int:
        """How many epochs of this loader have been begun and left."""
        return getattr(self.loader, "iteration", self._over)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._over = epoch
        if hasattr(self.loader, "iteration"):
            self.loader.iteration = epoch

    def num_batches(self, ranks: int) -> int:
        """Batches of an epoch on each of `ranks` ranks; 0 when that is unknown."""
        try:
            return len(self.loader) if self._sampler is None else self._sampler.num_rows(ranks)
        except TypeError:
            return 0

    def iterate(
        self, seed: int, epoch: int, start: int, spread: Spread | None = None
    ) -> Iterator[tuple[Any, Piece | None]]:
        """The batches of (`seed`, `epoch`) from number `start`; one more epoch is over when this ends or is left.

        With `spread` in its pieces, from row `start` on. Raises CheckpointError when that can't be.
        """
        over = self.epoch
        if spread is not None and not self.deals_out:
            spread = None
        _seed_loader(self.loader, mix(_LOADER, seed, epoch))
        try:
            if self._sampler is not None:
                self._sampler.begin_at(seed, epoch, start, spread)
                for batch in self.loader:
                    yield batch, self._sampler.pieces.popleft() if spread is not None else None
                return
            if spread is not None:
                self._check_stream(spread, start)
                start, pieces = start * spread.layout.ranks // spread.size, spread.stream(start)
            # An iterable's first batches are fetched again and dropped, with the same random numbers.
            for batch in islice(drawn_from(Stream(mix(_ITERABLE, seed, epoch)), self.loader), start, None):
                yield batch, next(pieces) if spread is not None else None
        finally:
            self.epoch = over + 1
            self._leave()

    @property
    def deals_out(self) -> bool:
        """Whether the ranks share the batches out among them; each of them has all of, say, a list."""
        return isinstance(self.loader, DataLoaderShard)

    def _check_stream(self, spread: Spread, start: int) -> None:
        before = f"{spread.layout.ranks} rank{'s' if spread.layout.ranks > 1 else ''}"
        if isinstance(self.loader.dataset, IterableDataset) and self.loader.num_workers:
            why = "the order of an IterableDataset with num_workers depends on them"
        elif spread.cuts > 1 or start * spread.layout.ranks % spread.size:
            why = f"it deals its batches out by itself, and those of a step are too few for {spread.size} of them"
        else:
            return
        raise CheckpointError(f"a loader can't go on with another number of ranks: {why}. Resume it on {before}")

    def _leave(self) -> None:
        """Tell Accelerate, when the loader was left in the middle, that nobody is inside any more."""
        state = getattr(self.loader, "gradient_state", None)
        if state is not None and self.loader in state.dataloader_references:
            self.loader.end()


def drawn_from(stream: Stream, source: Iterable[Any]) -> Iterator[Any]:
    """What `source` gives, while only its own code, not that of whoever takes it, draws from `stream`."""
    with stream:
        iterator = iter(source)
    while True:
        with stream:
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def _seed_loader(loader: Any, seed: int) -> None:
    """Seed the generators of the loader itself; Accelerate's preparing gives some a second one, for the order."""
    for name in ("generator", "synchronized_generator"):
        generator = getattr(loader, name, None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)


def prepare_loader(loader: DataLoader[Any], accelerator: Accelerator, seed: int) -> DataLoaderShard:
    """The same loader for this rank: its share of the batches, on its device, repeatable. Keeps all its settings."""
    shared = {
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "generator": torch.Generator().manual_seed(mix(_LOADER, seed)),
        "device": accelerator.device if accelerator.device_placement else None,
        "rng_types": None,
    }
    if isinstance(loader.dataset, IterableDataset):
        prepared = _prepare_iterable(loader, accelerator, shared)
    elif loader.batch_sampler is None:
        prepared = accelerator.prepare_data_loader(loader)
    else:
        dataset, is_plain = loader.dataset, loader.collate_fn is default_collate
        if not (is_plain and type(dataset) is TensorDataset):  # which draws no random numbers
            dataset = SeededDataset(dataset, None if is_plain else loader.collate_fn)
        if not is_plain:
            shared["collate_fn"] = SeededCollate(loader.collate_fn)
        whole = BatchSamplerShard(
            loader.batch_sampler, split_batches=accelerator.split_batches, even_batches=accelerator.even_batches
        )
        sampler = StampingSampler(whole, accelerator.num_processes, accelerator.process_index, seed)
        prepared = DataLoaderShard(dataset, batch_sampler=sampler, _drop_last=loader.drop_last, **shared)
    prepared._is_accelerate_prepared = True
    return prepared


def _prepare_iterable(loader: DataLoader[Any], accelerator: Accelerator, shared: dict[str, Any]) -> DataLoaderShard:
    dataset: Any = loader.dataset
    # The generators of lasting workers would go on from epoch to epoch, and a resumed run's begin anew.
    shared = {**shared, "persistent_workers": False}
    if accelerator.num_processes > 1:
        dataset = IterableDatasetShard(
            dataset,
            batch_size=loader.batch_size or 1,
            drop_last=loader.drop_last,
            num_processes=accelerator.num_processes,
            process_index=accelerator.process_index,
            split_batches=accelerator.split_batches,
        )
    return DataLoaderShard(
        dataset, batch_size=loader.batch_size, drop_last=loader.drop_last, _drop_last=loader.drop_last, **shared
    )
