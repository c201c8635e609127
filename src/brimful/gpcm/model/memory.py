"""The memory of each student, read before and written after every answer: exact, by four engines.

Legend: B students, S steps, N slots, D values of a slot, Q questions, R responses, X starts (1 for all, or B), T chosen
steps.

At each step a student's memory is read, r = w^T M, and then written, M <- M * (1 - w e^T) + w a^T. The weights w over
the slots come from a table with a row for each question, what is erased (e) and added (a) from tables with a row for
each response. Steps from a student's length on are padding: they write nothing, read 0, and may hold any index.

    loop     a plain loop over time: the definition, and what the others are held to
    native   compiled, for the CPU; the same bits each time, with any number of threads
    fused    Triton kernels with the memory in registers, for GPUs; the same bits each time
    scan     many steps at once in plain torch, for GPUs without Triton

All but the loop keep the memory every few steps only, and make the rest again when gradients are asked for. In float64
their reads and gradients agree with the loop's to 1e-10 of the largest number in the tensor, in float32 to 5e-6.
"""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...core.base.errors import ConfigError, InputError
from .memory_scan import chunk, scan

ENGINES = ("auto", "fused", "loop", "native", "scan")
SCAN_STEPS = 4
"""The fewest steps in a chunk at which `scan` is picked over `loop`: below, its rounds cost more than they save."""
MOST_SLOTS = 512
"""Slots up to which `fused` has a tile that fits the registers."""


def _rows(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of each step; without weight, padding neither reads nor writes."""
    keep_BS = torch.arange(question_BS.shape[1], device=length_B.device) < length_B[:, None]
    question_BS, row_BS = question_BS.masked_fill(~keep_BS, 0), row_BS.masked_fill(~keep_BS, 0)
    return w_QN[question_BS] * keep_BS[:, :, None], e_RD[row_BS], a_RD[row_BS]


def _write(M_BND: Tensor, w_BN: Tensor, e_BD: Tensor, a_BD: Tensor) -> Tensor:
    return M_BND * (1 - w_BN[:, :, None] * e_BD[:, None]) + w_BN[:, :, None] * a_BD[:, None]


def loop(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, start_XND: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor
) -> tuple[Tensor, Tensor]:
    """What is read at each step, and the memory at the end."""
    rows = _rows(w_QN, e_RD, a_RD, question_BS, row_BS, length_B)
    M_BND, reads = start_XND.expand(len(question_BS), -1, -1), []
    for w_BN, e_BD, a_BD in zip(*(each.unbind(1) for each in rows), strict=True):
        reads.append(torch.einsum("bn,bnd->bd", w_BN, M_BND))
        M_BND = _write(M_BND, w_BN, e_BD, a_BD)
    return torch.stack(reads, 1), M_BND


def read(
    w_QN: Float[Tensor, "Q N"],
    e_RD: Float[Tensor, "R D"],
    a_RD: Float[Tensor, "R D"],
    start: Float[Tensor, "*X N D"],
    question_BS: Int[Tensor, "B S"],
    row_BS: Int[Tensor, "B S"],
    length_B: Int[Tensor, " B"],
    *,
    engine: str = "auto",
    check: bool | None = None,
) -> Float[Tensor, "B S D"]:
    """What each student's memory says at each step, before that step's answer is written.

    Args:
        w_QN: the weights of the slots, for each question.
        e_RD: what a response erases of each value, between 0 and 1.
        a_RD: what it adds.
        start: the memory before the first step, (N, D), or one for each student, (B, N, D).
        question_BS: the row of `w_QN` for each step.
        row_BS: the row of `e_RD` and `a_RD` for each step.
        length_B: steps of each student; the rest is padding.
        engine: one of `ENGINES`; "auto" takes the fastest there is for the device.
        check: whether to look for indices outside their tables; by default on the CPU only, since elsewhere it waits
            for the device.

    Returns:
        The reads, with gradients for the three tables and the start.

    Example:
        >>> w, e, a = torch.ones(1, 1), torch.full((2, 1), 0.5), torch.tensor([[0.0], [1.0]])
        >>> question, row = torch.zeros(1, 3, dtype=torch.int64), torch.tensor([[1, 1, 0]])
        >>> read(w, e, a, torch.zeros(1, 1), question, row, torch.tensor([3])).flatten().tolist()
        [0.0, 1.0, 1.5]
    """
    return run(w_QN, e_RD, a_RD, start, question_BS, row_BS, length_B, engine=engine, check=check)[0]


def run(
    w_QN: Float[Tensor, "Q N"],
    e_RD: Float[Tensor, "R D"],
    a_RD: Float[Tensor, "R D"],
    start: Float[Tensor, "*X N D"],
    question_BS: Int[Tensor, "B S"],
    row_BS: Int[Tensor, "B S"],
    length_B: Int[Tensor, " B"],
    *,
    engine: str = "auto",
    check: bool | None = None,
) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B N D"]]:
    """As `read`, and the memory after each student's last step too: a start from which the student can go on."""
    _check(w_QN, e_RD, a_RD, start, question_BS, row_BS, length_B, check)
    B, S = question_BS.shape
    start_XND = start if start.ndim == 3 else start[None]
    if B * S == 0:
        none = sum(each[:0].sum() for each in (w_QN, e_RD, a_RD, start_XND))  # so that gradients are 0, not missing
        return w_QN.new_zeros(B, S, a_RD.shape[1]) + none, start_XND.expand(B, -1, -1) + none
    name = pick(w_QN.device, B, S, *start_XND.shape[1:]) if engine == "auto" else engine
    steps = (each.long() for each in (question_BS, row_BS, length_B))
    return _engine(name, w_QN.device)(w_QN, e_RD, a_RD, start_XND, *steps)


def read_steps(
    w_BSN: Float[Tensor, "B S N"],
    e_BSD: Float[Tensor, "B S D"],
    a_BSD: Float[Tensor, "B S D"],
    start: Float[Tensor, "*X N D"],
    length_B: Int[Tensor, " B"],
    *,
    engine: str = "auto",
) -> Float[Tensor, "B S D"]:
    """As `read`, where each step has rows of its own: tables of which each row is used once."""
    B, S = w_BSN.shape[:2]
    index_BS = torch.arange(B * S, device=w_BSN.device).view(B, S)
    w_QN, e_RD, a_RD = w_BSN.flatten(0, 1), e_BSD.flatten(0, 1), a_BSD.flatten(0, 1)
    return run(w_QN, e_RD, a_RD, start, index_BS, index_BS, length_B, engine=engine, check=False)[0]


def states(
    w_QN: Float[Tensor, "Q N"],
    e_RD: Float[Tensor, "R D"],
    a_RD: Float[Tensor, "R D"],
    start: Float[Tensor, "*X N D"],
    question_BS: Int[Tensor, "B S"],
    row_BS: Int[Tensor, "B S"],
    length_B: Int[Tensor, " B"],
    *,
    steps: Sequence[int] | None = None,
) -> Float[Tensor, "B T N D"]:
    """The whole memory after so many steps, of a few students: after each number in `steps`, or after 0, 1, ... S. What
    is after a student's last step stays as it was then."""
    _check(w_QN, e_RD, a_RD, start, question_BS, row_BS, length_B, True)
    B, S = question_BS.shape
    chosen = range(S + 1) if steps is None else steps
    if any(not 0 <= t <= S for t in chosen):
        raise InputError(f"steps holds {[t for t in chosen if not 0 <= t <= S]}; there are {S}, counted from 0 on.")
    M_BND = start.expand(B, *start.shape[-2:])
    kept = {0: M_BND}
    last = max(chosen, default=0)
    if last:
        rows = _rows(w_QN, e_RD, a_RD, question_BS[:, :last], row_BS[:, :last], length_B)
        for t, (w_BN, e_BD, a_BD) in enumerate(zip(*(each.unbind(1) for each in rows), strict=True), start=1):
            M_BND = _write(M_BND, w_BN, e_BD, a_BD)
            if t in chosen:
                kept[t] = M_BND
    return torch.stack([kept[t] for t in chosen], 1) if len(chosen) else M_BND[:, None][:, :0]


def pick(device: torch.device, B: int, S: int, N: int, D: int) -> str:
    """The engine that "auto" stands for."""
    if device.type == "cpu":
        return "native"
    if device.type == "cuda" and N <= MOST_SLOTS and find_spec("triton") is not None:
        return "fused"
    return "scan" if chunk(B, S, N, D) >= SCAN_STEPS else "loop"


def peak_bytes(
    engine: str, B: int, S: int, N: int, D: int, *, size: int = 4, tile: int = 32, steps: int = 16, programs: int = 1056
) -> int:
    """Bytes that a forward and a backward pass hold at their peak, the reads and their gradient among them, the tables
    and theirs not.

    Args:
        engine: which one.
        size: bytes of a number.
        tile, steps, programs: how `fused` is cut.
    """
    if engine == "native":
        from . import memory_numba

        tile, steps = memory_numba.TILE, memory_numba.STEPS
    one = B * N * D
    reads, tiles, pieces = 2 * B * S * D, -(-D // tile), max(0, -(-S // steps) - 1)
    if engine == "loop":
        # Of each step the memory, the gate and the gathered rows; walking back, four gradients as large as a memory.
        numbers = reads + 2 * S * one + 4 * one + B * S * (N + 2 * D)
    elif engine == "scan":
        length = chunk(B, S, N, D)
        numbers = reads + -(-S // length) * one + 4 * B * length * N * D + B * S * (N + 3 * D)
    elif engine in ("native", "fused"):
        bars = B * S * (tiles * N + 2 * D) + one
        if engine == "native":
            room = pieces * B * tiles * (-(-N // 4) * 4) * tile
        else:
            room = pieces * one + min(B * tiles, programs) * (steps - 1) * N * tile
        numbers = reads + bars + room
    else:
        raise ConfigError(f"engine is {engine!r}; it must be one of {', '.join(ENGINES[1:])}.")
    return size * numbers


def floor_bytes(B: int, S: int, N: int, D: int, *, size: int = 4) -> int:
    """Bytes that a forward pass must move where each step has rows of its own: it reads w, e and a, and writes r."""
    return size * B * S * (N + 3 * D)


def _engine(name: str, device: torch.device) -> Callable[..., tuple[Tensor, Tensor]]:
    if name == "loop":
        return loop
    if name == "scan":
        return scan
    if name == "native":
        if device.type != "cpu":
            raise ConfigError(f"engine is 'native', which is for the CPU; the tensors are on {device}. Use 'auto'.")
        from .memory_numba import native

        return native
    if name == "fused":
        if find_spec("triton") is None:
            raise ConfigError("engine is 'fused', which needs Triton, and that is not installed. Use 'auto'.")
        if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
            raise ConfigError("engine is 'fused', which is for GPUs; the tensors are on the CPU. Use 'auto'.")
        from .memory_triton import fused

        return fused
    raise ConfigError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}.")


def _check(
    w_QN: Tensor,
    e_RD: Tensor,
    a_RD: Tensor,
    start: Tensor,
    question_BS: Tensor,
    row_BS: Tensor,
    length_B: Tensor,
    indices: bool | None,
) -> None:
    shapes = {"w": w_QN, "e": e_RD, "a": a_RD, "question": question_BS, "row": row_BS, "length": length_B}
    shapes = {name: tuple(each.shape) for name, each in shapes.items()}
    if [len(shape) for shape in shapes.values()] != [2, 2, 2, 2, 2, 1]:
        raise InputError(f"The shapes are {shapes}; they must be (Q, N), (R, D), (R, D), (B, S), (B, S) and (B,).")
    if shapes["e"] != shapes["a"] or shapes["question"] != shapes["row"] or shapes["length"][0] != shapes["row"][0]:
        raise InputError(f"The shapes are {shapes}; e and a must agree, and so must question, row and length.")
    (N, D), B = (shapes["w"][1], shapes["e"][1]), shapes["row"][0]
    if N == 0 or D == 0 or (question_BS.numel() and 0 in (len(w_QN), len(e_RD))):
        raise InputError(f"The shapes are {shapes}; there must be a slot, a value, a question and a response.")
    if tuple(start.shape) not in ((N, D), (1, N, D), (B, N, D)):
        raise InputError(f"start has the shape {tuple(start.shape)}; it must be {(N, D)} or {(B, N, D)}.")
    kinds = {each.dtype for each in (w_QN, e_RD, a_RD, start)}
    if kinds not in ({torch.float32}, {torch.float64}):
        raise InputError(f"w, e, a and start are {sorted(map(str, kinds))}; make all float32, or all float64.")
    if any(each.dtype not in (torch.int32, torch.int64) for each in (question_BS, row_BS, length_B)):
        raise InputError(
            f"question, row and length are {question_BS.dtype}, {row_BS.dtype} and {length_B.dtype}; "
            "they must be int32 or int64."
        )
    places = {each.device for each in (w_QN, e_RD, a_RD, start, question_BS, row_BS, length_B)}
    if len(places) > 1:
        raise InputError(f"The tensors are on {sorted(map(str, places))}; move them to one device.")
    if indices or (indices is None and w_QN.device.type == "cpu"):
        _check_indices(len(w_QN), len(e_RD), question_BS, row_BS, length_B)


def _check_indices(Q: int, R: int, question_BS: Tensor, row_BS: Tensor, length_B: Tensor) -> None:
    B, S = question_BS.shape
    low, high = (int(length_B.min()), int(length_B.max())) if B else (0, 0)
    if low < 0 or high > S:
        raise InputError(f"length goes from {low} to {high}; it must be within 0 and {S}.")
    keep_BS = torch.arange(S, device=length_B.device) < length_B[:, None]
    for name, index_BS, rows in (("question", question_BS, Q), ("row", row_BS, R)):
        used = index_BS[keep_BS]
        low, high = (int(used.min()), int(used.max())) if len(used) else (0, 0)
        if low < 0 or high >= max(1, rows):
            raise InputError(f"{name} goes from {low} to {high} before the padding; its table has {rows} rows.")
