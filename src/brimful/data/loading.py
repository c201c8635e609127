"""`loader`: the batches of a dataset, epoch after epoch, from wherever its rows fit best."""

import contextlib
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..core.base.arguments import whole_number
from ..core.base.errors import BrimfulWarning, BudgetError, ConfigError, InputError
from ..core.memory import devices, garbage
from ..core.memory.budget import BudgetLike
from ..core.memory.oom import clear_frames, error_line, is_out_of_memory
from .chunked import DatasetChunks, chunked
from .dataset import Dataset
from .residency import Room, TierOptions, plan_tier, room
from .shuffle.order import Order, Padding
from .shuffle.seeded_transforms import SeededTransforms, Transform
from .shuffle.window import chunks_of_window
from .sources import source as rows_of
from .stall import Stall, StallClock
from .tiers.fill import Fill, holds
from .tiers.pinned import Pinned
from .tiers.resident import Resident
from .tiers.tier import Reading, Tier
from .tiers.window import Window

_KINDS: dict[str | None, Callable[[Reading], Tier]] = {"device": Resident, "pinned": Pinned, "window": Window}


def loader(
    source: Any,
    *,
    batch_size: int,
    budget: BudgetLike = None,
    seed: int = 0,
    device: str | int | torch.device | None = "auto",
    drop_last: bool = False,
    shuffle: bool = True,
    tier: str = "auto",
    preload_to_gpu: bool | None = None,
    window: int | str | None = None,
    chunk_rows: int | None = None,
    shards: int = 1,
    reserve: int | str = 0,
    transform: Transform | Sequence[Transform] = (),
    bucket: int = 0,
    balance: bool = False,
    ragged: str = "pad",
    pad: float = 0,
    rank: int = 0,
    ranks: int = 1,
    num_workers: int = 0,
    fingerprint: str | None = None,
) -> "Loader":
    """The batches of a dataset, on the device, in an order given by the seed alone.

    Nothing is loaded before the first batch; `loader.plan.explain()` tells where the rows will live, and why.

    Args:
        source: anything `data.source` reads.
        batch_size: samples of a batch, over all ranks together.
        budget: anything `Budget` reads: how many bytes the data, what is in use on the device and `reserve` may take.
        seed: of the permutations and transforms, from 0 to 2^64 - 1.
        device: where the batches are wanted.
        drop_last: whether a last, shorter batch is left out.
        shuffle: whether each epoch has an order of its own; the order of the source otherwise.
        tier: "device", "pinned", "window", or "auto" for the fastest that fits.
        preload_to_gpu: True for the device tier or an error, False for any other; None leaves it to the plan.
        window: samples, or bytes as a text such as "2GB", within which rows are shuffled; None for all of them, or for
            as many as fit where only the window tier does.
        chunk_rows: samples that are read at a time in the window tier; by default the source's own chunks.
        shards: into how many parts the samples are divided, of which ranks hold only their own; ranks divide it.
        reserve: bytes of the budget to leave for the model and its activations.
        transform: `transform(batch, generator)`, or several, run on the device; the generator is seeded per batch.
        bucket: over how many batches samples are sorted by length, so that less is padded; 0 for not at all.
        balance: with `bucket`, batches of about as many values of ragged fields each, and `batch_size` samples on
            average, rather than of `batch_size` samples each.
        ragged: "pad" for `Padded` batches of ragged fields, "packed" for `Ragged` ones.
        pad: what to fill up with.
        rank, ranks: which part of each batch to read, of how many.
        num_workers: threads that decode, where samples must be decoded.
        fingerprint: what a state knows the dataset by; by default its content.

    Example:
        >>> import torch
        >>> batches = loader(torch.arange(5), batch_size=2, seed=0, device="cpu")
        >>> [batch.tolist() for batch in batches.epoch(0)]
        [[0, 2], [1, 4], [3]]
    """
    least = {"batch_size": (batch_size, 1), "bucket": (bucket, 0), "num_workers": (num_workers, 0), "ranks": (ranks, 1)}
    for name, bounds in {**least, "shards": (shards, 1)}.items():
        whole_number(name, *bounds)
    whole_number("rank", rank, 0, ranks - 1)
    whole_number("seed", seed, 0, 2**64 - 1)
    if ragged not in ("pad", "packed"):
        raise ConfigError(f"ragged is {ragged!r}; use 'pad' or 'packed'")
    rows = rows_of(source)
    lengths = tuple(field.lengths for field in rows.fields.values() if field.lengths is not None)
    if bucket and not lengths:
        raise ConfigError(f"bucket={bucket} sorts by length, and no field is ragged; leave it out, or give a Ragged")
    if balance and not bucket:
        raise ConfigError("balance divides batches that are sorted by length; give bucket= as well, or leave it out")
    for field in rows.fields.values():
        if field.lengths is not None and not holds(field.dtype, pad):
            raise ConfigError(f"pad is {pad!r}, which a field of {field.dtype} cannot hold; give another number")
    size = _chunk_rows(rows, chunk_rows)
    order = Order(
        *(len(rows), int(batch_size), int(seed), bool(shuffle), drop_last, int(bucket), lengths),
        chunk_rows=size,
        window=chunks_of_window(window, len(rows), rows.nbytes, size),
        shards=int(shards),
        balance=bool(balance),
    )
    if not order.batches:
        raise ConfigError(
            f"drop_last leaves no batch: {len(rows)} samples do not fill one of {batch_size}. Use a smaller "
            "batch_size, or drop_last=False"
        )
    where = devices.resolve(device)
    return Loader(
        rows,
        order,
        room(where, budget, reserve),
        TierOptions(tier, preload_to_gpu, any_window=window is None),
        fill=Fill(pad, ragged == "packed"),
        transforms=(transform,) if callable(transform) else tuple(transform),
        part=(rank, ranks),
        workers=num_workers,
        known=fingerprint,
    )


def _chunk_rows(rows: Dataset, given: int | None) -> int:
    if given is not None:
        whole_number("chunk_rows", given, 1)
    own = (chunked(rows, given) or DatasetChunks(rows, given)).chunk_rows
    if given is not None and own != min(given, len(rows)):
        raise ConfigError(f"chunk_rows is {given}, and the source has chunks of {own} rows; leave it out")
    return own


class Loader:
    """Batches of a dataset, epoch after epoch; made by `loader`.

    | what you write                  | what you get                                                          |
    |---------------------------------|-----------------------------------------------------------------------|
    | `for batch in loader.epoch(3)`  | epoch 3, whole; the rest of it just after a state in its midst was restored |
    | `for batch in loader`           | the next epoch each time; the rest of one just after `restore`        |
    | `len(loader)`                   | batches of an epoch                                                   |
    | `loader.position`               | the next batch to come: (epoch, batch)                                |
    | `loader.state()`, `restore`     | that position as a small dict, and back to it                         |
    | `loader.plan`                   | where the rows live, and why                                          |
    | `loader.index(epoch, batch)`    | the numbers of a batch's samples                                      |
    | `loader.batch(epoch, number)`   | one batch                                                             |
    | `loader.heaviest(epoch)`        | the batches that may need the most memory                             |
    | `loader.padding(epoch)`         | what padding costs, with and without length bucketing                 |
    | `loader.stall`                  | how long the last epoch waited for batches                            |
    | `loader.step_down(reason)`      | on to the next tier, where the device is short of memory              |
    """

    def __init__(
        self,
        rows: Dataset,
        order: Order,
        room: Room,
        options: TierOptions,
        *,
        fill: Fill = Fill(),
        transforms: tuple[Transform, ...] = (),
        part: tuple[int, int] = (0, 1),
        workers: int = 0,
        known: str | None = None,
    ) -> None:
        self.device = room.device
        self.warn: Callable[[str], None] = _warn
        self._rows, self._fill, self._room, self._options = rows, fill, room, options
        self._part, self._workers, self._known = part, workers, known
        self._next = (0, 0)
        self._restored = False
        self._tier: Tier | None = None
        self._running: list[Generator[Any, None, None]] = []  # the batches of the tier that are being read
        self._clock = StallClock()
        self.plan, self._order = plan_tier(rows, order, room, options, part[1])
        self._transformed = SeededTransforms(transforms, self.device, self._order, *part)

    def __len__(self) -> int:
        return self._order.batches

    def __repr__(self) -> str:
        tier, (epoch, batch) = self.plan.tier, self._next
        return f"Loader({self._order}, tier {tier!r} on {self.device}, at epoch {epoch}, batch {batch})"

    @property
    def position(self) -> tuple[int, int]:
        """The epoch and the number of the next batch."""
        return self._next

    def __iter__(self) -> Iterator[Any]:
        epoch, batch = self._next
        return self.epoch(epoch if self._restored or batch == 0 else epoch + 1)

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of an epoch: all of them, or, just after `restore`, those that are left of that epoch."""
        whole_number("epoch", number, 0, 2**64 - 1)
        first = self._next[1] if self._restored and number == self._next[0] else 0
        self._restored, self._next = False, (int(number), first)
        return self._run(int(number), first)

    def index(self, epoch: int, batch: int) -> np.ndarray:
        """The numbers of the samples in a batch of this rank, in order."""
        whole_number("epoch", epoch, 0, 2**64 - 1)
        whole_number("batch", batch, 0, len(self) - 1)
        numbers, bounds = self._order.part(epoch, *self._part, first=batch)
        return numbers[: bounds[1]]

    def batch(self, epoch: int, number: int) -> Any:
        """One batch of an epoch. The position stays what it was."""
        whole_number("epoch", epoch, 0, 2**64 - 1)
        whole_number("batch", number, 0, len(self) - 1)
        kept, self._next, self._restored = (self._next, self._restored), (int(epoch), int(number)), True
        try:
            with contextlib.closing(self._run(int(epoch), int(number))) as batches:
                return next(batches)
        finally:
            self._next, self._restored = kept

    def heaviest(self, epoch: int = 0) -> list[int]:
        """The batches of an epoch that may need the most memory: of most samples, and of most positions where samples
        are of unequal length."""
        return self._order.heaviest(epoch)

    def padding(self, epoch: int = 0) -> Padding:
        """What filling up to the longest costs in an epoch, with and without length bucketing."""
        return self._order.padding(epoch)

    @property
    def stall(self) -> Stall:
        """How long the last epoch, or the one that is being read, waited for batches. It waits for the device."""
        return self._clock.read()

    def state(self) -> dict[str, Any]:
        """The position, as a small dict for JSON. Inside a loop, the batch in hand counts as seen."""
        epoch, batch = self._next
        return {**self._identity(), "epoch": epoch, "seen": batch * self._order.batch_size}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on where a state was taken, whatever the tier, the device, the workers or the number of ranks.

        Raises:
            InputError: it is of another dataset, or no state at all.
            ConfigError: it is of another seed, batch size, shuffle, bucket, balance, window or number of shards.
            BudgetError: its window does not fit.
        """
        own = self._identity()
        if isinstance(state, dict):  # of a version that did not know them
            state = {"window": None, "chunk_rows": None, "shards": 1, "balance": False, **state}
        if not isinstance(state, dict) or own.keys() | {"epoch", "seen"} != state.keys():
            raise InputError(f"{state!r} is not a loader's state; give what Loader.state() returned")
        if self._options.any_window and state["window"] != own["window"]:
            self._use_window(state["window"], state["chunk_rows"])
            own = self._identity()
        for name in [name for name in own if state[name] != own[name]]:
            if name in ("fingerprint", "samples"):
                raise InputError(
                    f"the state is of another dataset: its {name} is {state[name]!r}, this one's is {own[name]!r}. "
                    "Give the same data, or begin anew without the state"
                )
            raise ConfigError(
                f"the state has {name}={state[name]!r}, this loader {name}={own[name]!r}: the batches would not "
                "be the same. Use the same options, or begin anew without the state"
            )
        whole_number("the state's epoch", state["epoch"], 0, 2**64 - 1)
        whole_number("the state's seen", state["seen"], 0, (len(self) - 1) * self._order.batch_size)
        batch, rest = divmod(state["seen"], self._order.batch_size)
        if rest:
            raise InputError(f"the state's seen is {state['seen']}, which is no whole batch; give it as it was taken")
        self._next, self._restored = (state["epoch"], batch), True

    @property
    def resident_bytes(self) -> int:
        """Of the rows that were copied to the device to stay there; 0 in the other tiers."""
        return self._tier.nbytes if isinstance(self._tier, Resident) else 0

    def _identity(self) -> dict[str, Any]:
        """What decides the batches, and so must be the same when a state is restored."""
        self._known = self._rows.fingerprint() if self._known is None else self._known
        order = self._order
        return {
            "fingerprint": self._known,
            "samples": order.samples,
            "seed": order.seed,
            "batch_size": order.batch_size,
            "shuffle": order.shuffle,
            "bucket": order.bucket,
            "balance": order.balance,
            "window": order.window * order.chunk_rows or None,
            "chunk_rows": order.chunk_rows if order.window or order.shards > 1 else None,
            "shards": order.shards,
        }

    def _use_window(self, window: Any, chunk_rows: Any) -> None:
        """Plans again, with the window of a state: nobody gave one, so it is as good as any."""
        order = replace(self._order, window=0)
        if window is not None:
            whole_number("the state's chunk_rows", chunk_rows, 1, len(self._rows))
            whole_number("the state's window", window, chunk_rows)
            order = replace(order, chunk_rows=chunk_rows, window=window // chunk_rows)
        options = replace(self._options, any_window=False)
        try:
            plan, _ = plan_tier(self._rows, order, self._room, options, self._part[1])
        except BudgetError as error:
            raise BudgetError(
                f"{error} The state is of a run with another window, which does not fit here: use a larger budget, or "
                "begin anew without the state"
            ) from error
        self.plan, self._order, self._tier = plan, order, None
        self._transformed = self._transformed.of(order)

    def step_down(self, reason: str) -> bool:
        """Goes on with the next tier that fits, in the same order, and warns; whether there is one. Rows that are on
        the device by themselves would free nothing."""
        if self.plan.tier == "device" and self._rows.ready(self.device):
            return False
        options = TierOptions(below=self.plan.tier, any_window=False)  # a smaller window would be another order
        try:
            plan, _ = plan_tier(self._rows, self._order, self._room, options, self._part[1])
        except BudgetError:
            return False
        self.warn(f"{reason}: the data moves from the {self.plan.tier} tier to the {plan.tier} tier, the batches stay")
        self.plan, self._tier = plan, None
        while self._running:  # it holds the rows: some versions of Python keep what a closed generator refers to
            self._running.pop().close()
        return True

    def _open(self) -> Tier:
        if self._tier is None:
            shared = self.device, self._fill, self._workers, self._clock
            self._tier = _KINDS[self.plan.tier](Reading(self._rows, self._order, *self._part, *shared))
        return self._tier

    def _run(self, epoch: int, first: int) -> Generator[Any, None, None]:
        began = time.perf_counter()
        self._opened()
        self._clock.begin(time.perf_counter() - began)
        number, plan = first, None
        running: list[Generator[Any, None, None]] = []
        try:
            while number < len(self):
                if plan is not self.plan:  # at first, and after another tier was taken
                    running = self._running = [self._opened().batches(epoch, number)]
                    plan = self.plan
                try:
                    batch = self._transformed(next(running[0]), epoch, number)
                except Exception as error:
                    self._recover(error)
                    continue
                number += 1
                self._next = (epoch, number) if number < len(self) else (epoch + 1, 0)
                self._clock.mark()
                yield batch
                self._clock.mark()
            if running:
                next(running[0], None)  # so that it ends
        finally:
            for batches in running:
                batches.close()

    def _opened(self) -> Tier:
        """The tier; a lower one where the device has no memory for it."""
        while True:
            try:
                return self._open()
            except Exception as error:
                self._recover(error)

    def _recover(self, error: Exception) -> None:
        """Steps down after running out of memory; raises any other error, and that one where no tier is left."""
        if not is_out_of_memory(error):
            raise error
        clear_frames(error)
        if not self.step_down(error_line(error)):
            raise error
        garbage.collect()
        devices.release_cache(self.device)


def _warn(message: str) -> None:
    warnings.warn(message, BrimfulWarning, stacklevel=4)
