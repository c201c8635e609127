"""A chunk as bytes: its fields one after the other, each row by row, little-endian, each beginning at a multiple of 64.

Bytes in a database become tensors without a conversion: views of the buffer that they were read into. `FORMAT` is
stored with every set of chunks; a set of a later format is refused, one of an earlier format is built again.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..dataset import Field, Fields

FORMAT = 1
ALIGNMENT = 64
TARGET = 2**20
"""Bytes that a chunk should have: larger ones gain nothing, smaller ones wait more often."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a field lies in a chunk."""

    name: str
    field: Field
    start: int
    stop: int


def rows_per_chunk(fields: Mapping[str, Field], target: int = TARGET) -> int:
    return max(1, target // max(1, sum(field.unit_bytes for field in fields.values())))


def spans(fields: Mapping[str, Field], rows: int) -> list[Span]:
    """Where the fields of a chunk of so many rows lie."""
    placed, end = [], 0
    for name, field in fields.items():
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + rows * field.unit_bytes
        placed.append(Span(name, field, start, end))
    return placed


def chunk_bytes(fields: Mapping[str, Field], rows: int) -> int:
    return spans(fields, rows)[-1].stop


def encode(fields: Mapping[str, Field], values: Fields, before: int = 0) -> bytearray:
    """The bytes of a chunk, with room for others before them: a multiple of the alignment."""
    rows = len(next(iter(values.values())))
    content = bytearray(before + chunk_bytes(fields, rows))
    target = decode(fields, memoryview(content)[before:], rows)
    for name, part in values.items():
        target[name].copy_(part)
    return content


def decode(fields: Mapping[str, Field], content: Any, rows: int) -> Fields:
    """The fields in the bytes of a chunk, as views of a buffer that can be written to."""
    flat = torch.frombuffer(content, dtype=torch.uint8) if not isinstance(content, torch.Tensor) else content
    return {
        span.name: flat[span.start : span.stop].view(span.field.dtype).reshape(rows, *span.field.shape)
        for span in spans(fields, rows)
    }


def checksum(content: Any) -> int:
    """What a chunk is checked by whenever it is read: XXH64, as the signed number that a bigint is."""
    from .xxhash import xxh64  # compiled when the first chunk is read or written

    return (xxh64(content) ^ 2**63) - 2**63


def digest(content: Any) -> bytes:
    """What tells the content of one chunk from another's, for the fingerprint of a dataset."""
    return hashlib.blake2b(content, digest_size=16).digest()


def fingerprint(fields: Mapping[str, Field], rows: int, digests: Iterable[bytes]) -> str:
    """The digest of a dataset, from those of its chunks."""
    form = [(name, str(field.dtype), field.shape) for name, field in fields.items()]
    total = hashlib.blake2b(repr((FORMAT, form, rows)).encode(), digest_size=16)
    for part in digests:
        total.update(part)
    return total.hexdigest()


def regroup(parts: Iterable[Fields], size: int) -> Iterator[Fields]:
    """The same rows in parts of `size`, the last of which may be shorter."""
    waiting: list[Fields] = []
    have = 0
    for part in parts:
        waiting.append(part)
        have += len(next(iter(part.values())))
        while have >= size:
            joined = waiting[0] if len(waiting) == 1 else _join(waiting)
            yield {name: tensor[:size] for name, tensor in joined.items()}
            have -= size
            waiting = [{name: tensor[size:] for name, tensor in joined.items()}] if have else []
    if have:
        yield _join(waiting)


def _join(parts: list[Fields]) -> Fields:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
