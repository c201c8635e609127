"""Tensors: .safetensors. The header is a JSON object that says where each tensor lies; together they must cover
the file once, without holes."""

import json
import math
from typing import Any, BinaryIO

from .refusal import refused

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
_LARGEST_HEADER = 10_000_000


def check_safetensors(file: BinaryIO, size: int, name: str) -> None:
    """Its header is sound, and is what the file holds."""
    length = int.from_bytes(file.read(8), "little") if size >= 8 else -1
    if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
        raise refused(name, f"its header has {length} bytes of {size}; write it again with safetensors")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_unique, parse_constant=_no_constant)
        if not isinstance(header, dict):
            raise ValueError("the header is no object")
        spans = sorted(_span(tensor) for key, tensor in header.items() if key != "__metadata__")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise refused(name, f"its header makes no sense ({str(error)[:200]}); write it again") from error
    end = 0
    for start, stop in spans:
        if start != end:
            raise refused(name, "its tensors overlap or leave a hole; write it again with safetensors")
        end = stop
    if end != size - 8 - length:
        raise refused(name, f"its tensors take {end} bytes, and it has {size - 8 - length}; write it again")


def _span(tensor: Any) -> tuple[int, int]:
    """Where a tensor's bytes lie."""
    shape, (start, stop) = tensor["shape"], tensor["data_offsets"]
    numbers = [*shape, start, stop]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        raise ValueError("a shape or an offset is no whole number")
    if tensor["dtype"] not in _BITS or len(shape) > 64:
        raise ValueError(f"there is no dtype {str(tensor['dtype'])[:20]!r} of {len(shape)} dimensions")
    if (stop - start) * 8 != math.prod(shape) * _BITS[tensor["dtype"]]:
        raise ValueError("a tensor's bytes are not those of its shape")
    return start, stop


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise ValueError("a name is given twice")
    return names


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")
