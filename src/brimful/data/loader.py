"""`loader`: the batches of a dataset, epoch after epoch, from wherever its rows fit best."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..core.base.errors import ConfigError, InputError
from ..core.memory import devices
from ..core.memory.plan import Plan
from .dataset import Dataset
from .residency import plan_tier, room
from .shuffle.order import Order, Padding
from .shuffle.permutation import transform_seed
from .sources import source as rows_of
from .tiers import Fill, Pinned, Resident

Transform = Callable[[Any, torch.Generator], Any]


def loader(
    source: Any,
    *,
    batch_size: int,
    budget: Any = None,
    seed: int = 0,
    device: str | int | torch.device | None = "auto",
    drop_last: bool = False,
    shuffle: bool = True,
    tier: str = "auto",
    reserve: int | str = 0,
    transform: Transform | Sequence[Transform] = (),
    bucket: int = 0,
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
        source: tensors or arrays (one, or a tuple or dict of them, `Ragged` among them), the path of a .npy, .npz or
            Parquet file, or any `Source`: `Subset`, `Decoded`, one of your own.
        batch_size: samples of a batch, over all ranks together.
        budget: anything `Budget` reads: how many bytes the data, what is in use on the device and `reserve` may take.
        seed: of the permutations and transforms, from 0 to 2^64 - 1.
        device: where the batches are wanted.
        drop_last: whether a last, shorter batch is left out.
        shuffle: whether each epoch has an order of its own; the order of the source otherwise.
        tier: "device", "pinned", or "auto" for the fastest that fits.
        reserve: bytes of the budget to leave for the model and its activations.
        transform: `transform(batch, generator)`, or several, run on the device; the generator is seeded anew for each
            batch.
        bucket: over how many batches samples are sorted by length, so that less is padded; 0 for not at all.
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
    for name, bounds in least.items():
        whole_number(name, *bounds)
    whole_number("rank", rank, 0, ranks - 1)
    whole_number("seed", seed, 0, 2**64 - 1)
    if ragged not in ("pad", "packed"):
        raise ConfigError(f"ragged is {ragged!r}; use 'pad' or 'packed'")
    rows = rows_of(source)
    lengths = tuple(field.lengths for field in rows.fields.values() if field.lengths is not None)
    if bucket and not lengths:
        raise ConfigError(f"bucket={bucket} sorts by length, and no field is ragged; leave it out, or give a Ragged")
    for field in rows.fields.values():
        if field.lengths is not None and not _holds(field.dtype, pad):
            raise ConfigError(f"pad is {pad!r}, which a field of {field.dtype} cannot hold; give another number")
    order = Order(len(rows), int(batch_size), int(seed), bool(shuffle), drop_last, int(bucket), lengths)
    if not order.batches:
        raise ConfigError(
            f"drop_last leaves no batch: {len(rows)} samples do not fill one of {batch_size}. Use a smaller "
            "batch_size, or drop_last=False"
        )
    where = devices.resolve(device)
    plan = plan_tier(rows, order, room(where, budget, reserve), tier, ranks)
    return Loader(
        rows,
        order,
        plan,
        where,
        fill=Fill(pad, ragged == "packed"),
        transforms=(transform,) if callable(transform) else tuple(transform),
        part=(rank, ranks),
        workers=num_workers,
        known=fingerprint,
    )


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuses an option that is not a whole number in its range."""
    good = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not good or value < least or (most is not None and value > most):
        span = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} is {value!r}; give a whole number, {span}")


def _holds(dtype: torch.dtype, number: float) -> bool:
    try:
        return dtype.is_floating_point or dtype.is_complex or torch.full((), number, dtype=dtype).item() == number
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return False


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
    | `loader.padding(epoch)`         | what padding costs, with and without length bucketing                 |
    """

    def __init__(
        self,
        rows: Dataset,
        order: Order,
        plan: Plan,
        device: torch.device,
        *,
        fill: Fill = Fill(),
        transforms: tuple[Transform, ...] = (),
        part: tuple[int, int] = (0, 1),
        workers: int = 0,
        known: str | None = None,
    ) -> None:
        self.plan, self.device = plan, device
        self._rows, self._order, self._fill = rows, order, fill
        self._transforms, self._part, self._workers, self._known = transforms, part, workers, known
        self._generator = torch.Generator(device) if transforms else None
        self._next = (0, 0)
        self._restored = False
        self._tier: Resident | Pinned | None = None

    def __len__(self) -> int:
        return self._order.batches

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

    def padding(self, epoch: int = 0) -> Padding:
        """What filling up to the longest costs in an epoch, with and without length bucketing."""
        return self._order.padding(epoch)

    def state(self) -> dict[str, Any]:
        """The position, as a small dict for JSON. Inside a loop, the batch in hand counts as seen."""
        epoch, batch = self._next
        return {**self._identity(), "epoch": epoch, "seen": batch * self._order.batch_size}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on where a state was taken, whatever the tier, the device, the workers or the number of ranks.

        Raises:
            InputError: it is of another dataset, or no state at all.
            ConfigError: it is of another seed, batch size, shuffle or bucket.
        """
        own = self._identity()
        if not isinstance(state, dict) or own.keys() | {"epoch", "seen"} != state.keys():
            raise InputError(f"{state!r} is not a loader's state; give what Loader.state() returned")
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
        }

    def _run(self, epoch: int, first: int) -> Iterator[Any]:
        if self._tier is None:
            kind = Resident if self.plan.tier == "device" else Pinned
            self._tier = kind(self._rows, self.device, self._fill, self._workers)
        for number, batch in enumerate(self._tier.batches(*self._order.part(epoch, *self._part, first=first)), first):
            self._next = (epoch, number + 1) if number + 1 < len(self) else (epoch + 1, 0)
            if self._generator is not None:
                position = self._order.position(number, *self._part)
                self._generator.manual_seed(transform_seed(self._order.seed, epoch, number, position))
                for transform in self._transforms:
                    batch = transform(batch, self._generator)
            yield batch
