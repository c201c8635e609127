"""The memory of each student, read before and written after every answer: exact, by four engines.

Legend: B students, S steps, N slots, D values of a slot, Q questions, R responses, X initial states (1 for all, or B),
T = S + 1 moments, Z steps of all students.

At each step a student's memory is read, r = w^T M, and then written, M <- M * (1 - w e^T) + w a^T. The weights w over
the slots come from a table with a row for each question, what is erased (e) and added (a) from tables with a row for
each response. Steps from a student's length on are padding: they write nothing, read 0, and may hold any index.

    loop     a plain loop over time: the definition, and the reference for the others
    native   compiled by numba, for the CPU; deterministic, with any number of threads
    fused    Triton kernels with the memory in registers, for GPUs; deterministic
    scan     many steps at once in plain torch, for GPUs without Triton

All but the loop save the memory every few steps only, and recompute the rest in the backward pass. In float64 their
reads and gradients agree with the loop's to 1e-10 of the largest number in the tensor, in float32 to 5e-6.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...core.base.errors import ConfigError, InputError
from .memory_scan import chunk, gather_rows, scan

ENGINES = ("auto", "fused", "loop", "native", "scan")
SCAN_STEPS = 4
"""The fewest steps in a chunk for which `scan` is preferred to `loop`: below, its rounds cost more than they save."""
MAX_SLOTS = 512
"""Slots up to which `fused` has a tile that fits the registers."""


def _write(M_BND: Tensor, w_BN: Tensor, e_BD: Tensor, a_BD: Tensor) -> Tensor:
    return M_BND * (1 - w_BN[:, :, None] * e_BD[:, None]) + w_BN[:, :, None] * a_BD[:, None]


def loop(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, start_XND: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor
) -> tuple[Tensor, Tensor]:
    """What is read at each step, and the final memory."""
    rows = gather_rows(w_QN, e_RD, a_RD, question_BS, row_BS, length_B)
    M_BND, reads = start_XND.expand(len(question_BS), -1, -1), []
    for w_BN, e_BD, a_BD in zip(*(row.unbind(1) for row in rows), strict=True):
        reads.append(torch.einsum("bn,bnd->bd", w_BN, M_BND))
        M_BND = _write(M_BND, w_BN, e_BD, a_BD)
    return torch.stack(reads, 1), M_BND


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
) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B N D"]]:
    """What each student's memory says at each step, before that step's answer is written, and the memory after the last
    step: an initial state from which the student can go on.

    Args:
        w_QN: the weights of the slots, for each question.
        e_RD: what a response erases of each value, between 0 and 1.
        a_RD: what it adds.
        start: the memory before the first step, (N, D), or one for each student, (B, N, D).
        question_BS: the row of `w_QN` for each step.
        row_BS: the row of `e_RD` and `a_RD` for each step.
        length_B: steps of each student; the rest is padding.
        engine: one of `ENGINES`; "auto" takes the fastest there is for the device.

    Returns:
        The reads and the final memory, with gradients for the three tables and the initial memory. On the CPU indices
        outside their tables are an error; elsewhere the check would wait for the device.

    Example:
        >>> w, e, a = torch.ones(1, 1), torch.full((2, 1), 0.5), torch.tensor([[0.0], [1.0]])
        >>> question, row = torch.zeros(1, 3, dtype=torch.int64), torch.tensor([[1, 1, 0]])
        >>> run(w, e, a, torch.zeros(1, 1), question, row, torch.tensor([3]))[0].flatten().tolist()
        [0.0, 1.0, 1.5]
    """
    _check(w_QN, e_RD, a_RD, start, question_BS, row_BS, length_B)
    B, S = question_BS.shape
    start_XND = start if start.ndim == 3 else start[None]
    if B * S == 0:
        zero = sum(table[:0].sum() for table in (w_QN, e_RD, a_RD, start_XND))  # so that gradients are 0, not missing
        return w_QN.new_zeros(B, S, a_RD.shape[1]) + zero, start_XND.expand(B, -1, -1) + zero
    name = pick(w_QN.device, B, S, *start_XND.shape[1:]) if engine == "auto" else engine
    steps = (index.long() for index in (question_BS, row_BS, length_B))
    return find_engine(name, w_QN.device)(w_QN, e_RD, a_RD, start_XND, *steps)


def run_packed(
    w_QN: Float[Tensor, "Q N"],
    e_RD: Float[Tensor, "R D"],
    a_RD: Float[Tensor, "R D"],
    start_ND: Float[Tensor, "N D"],
    question_Z: Int[Tensor, " Z"],
    row_Z: Int[Tensor, " Z"],
    length_B: Int[Tensor, " B"],
) -> Float[Tensor, "Z D"]:
    """The reads of `run` for steps without padding, those of one student after the other's; on the CPU."""
    from .memory_numba import native

    tables = (w_QN, e_RD, a_RD, start_ND[None])
    return native(*tables, *(index.long() for index in (question_Z, row_Z, length_B)))[0]


def states(
    w_QN: Float[Tensor, "Q N"],
    e_RD: Float[Tensor, "R D"],
    a_RD: Float[Tensor, "R D"],
    start: Float[Tensor, "*X N D"],
    question_BS: Int[Tensor, "B S"],
    row_BS: Int[Tensor, "B S"],
    length_B: Int[Tensor, " B"],
) -> Float[Tensor, "B T N D"]:
    """The whole memory after 0, 1, ... S steps, of a few students; after a student's last step it stays as it is."""
    _check(w_QN, e_RD, a_RD, start, question_BS, row_BS, length_B)
    memories = [start.expand(len(question_BS), *start.shape[-2:])]
    rows = gather_rows(w_QN, e_RD, a_RD, question_BS, row_BS, length_B)
    for w_BN, e_BD, a_BD in zip(*(row.unbind(1) for row in rows), strict=True):
        memories.append(_write(memories[-1], w_BN, e_BD, a_BD))
    return torch.stack(memories, 1)


def pick(device: torch.device, B: int, S: int, N: int, D: int) -> str:
    """The engine that "auto" stands for."""
    if device.type == "cpu":
        return "native"
    if device.type == "cuda" and N <= MAX_SLOTS and find_spec("triton") is not None:
        return "fused"
    return "scan" if chunk(B, S, N, D) >= SCAN_STEPS else "loop"


def find_engine(name: str, device: torch.device) -> Callable[..., tuple[Tensor, Tensor]]:
    """An engine by its name, where the device has it."""
    if name in ("loop", "scan"):
        return loop if name == "loop" else scan
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
) -> None:
    tensors = {"w": w_QN, "e": e_RD, "a": a_RD, "question": question_BS, "row": row_BS, "length": length_B}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if [len(shape) for shape in shapes.values()] != [2, 2, 2, 2, 2, 1]:
        raise InputError(f"The shapes are {shapes}; they must be (Q, N), (R, D), (R, D), (B, S), (B, S) and (B,).")
    (N, D), (B, S) = (shapes["w"][1], shapes["e"][1]), shapes["row"]
    dtypes = {tensor.dtype for tensor in (w_QN, e_RD, a_RD, start)}
    indices = [tensor.dtype for tensor in (question_BS, row_BS, length_B)]
    devices = {tensor.device for tensor in (*tensors.values(), start)}
    met = (
        shapes["e"] == shapes["a"] and shapes["question"] == shapes["row"] and len(length_B) == B,
        N > 0 and D > 0 and not (B * S and 0 in (len(w_QN), len(e_RD))),
        tuple(start.shape) in ((N, D), (1, N, D), (B, N, D)),
        dtypes in ({torch.float32}, {torch.float64}),
        {torch.int32, torch.int64}.issuperset(indices),
        len(devices) == 1,
    )
    if not all(met):
        messages = (
            f"The shapes are {shapes}; e and a must agree, and so must question, row and length.",
            f"The shapes are {shapes}; there must be a slot, a value, a question and a response.",
            f"start has the shape {tuple(start.shape)}; it must be {(N, D)} or {(B, N, D)}.",
            f"w, e, a and start are {sorted(map(str, dtypes))}; make all float32, or all float64.",
            f"question, row and length are {', '.join(map(str, indices))}; they must be int32 or int64.",
            f"The tensors are on {sorted(map(str, devices))}; move them to one device.",
        )
        raise InputError(messages[met.index(False)])
    if w_QN.device.type == "cpu":
        real_BS = torch.arange(S) < length_B[:, None]
        bounds = {"length": (length_B, S), "question": (question_BS[real_BS], len(w_QN) - 1)}
        for name, (index, last) in (bounds | {"row": (row_BS[real_BS], len(e_RD) - 1)}).items():
            low, high = (int(index.min()), int(index.max())) if index.numel() else (0, 0)
            if low < 0 or high > max(0, last):
                raise InputError(f"{name} goes from {low} to {high} before padding; it must be within 0 and {last}.")
