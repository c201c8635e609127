"""The memory by scans over time, in plain torch: many steps at once, for few students and long sequences.

Legend: B students, S steps, T steps of a chunk, N slots, D values, Q questions, R responses, X initial states (1 or B).

A cell's step is affine, M_t = g M_(t-1) + b, and two such steps make one, (g2, b2) o (g1, b1) = (g2 g1, g2 b1 + b2), so
that T steps take log2 T rounds. Backwards it is the same scan from the other end. Chunks follow one another, each as
long as a bounded number of cells allows, and only the memories between them are saved. Nothing is divided by g.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from .memory_autograd import Kernels, apply

CELLS = 2**22
"""Cells that one tensor of a chunk may have: students times steps times slots times values."""


def chunk(B: int, S: int, N: int, D: int) -> int:
    """Steps of a chunk."""
    return max(1, min(S, CELLS // max(1, B * N * D)))


def _scan(g_BTND: Tensor, b_BTND: Tensor, first_BND: Tensor) -> tuple[Tensor, Tensor]:
    """What there is before each step, and what after the last. Overwrites its first two arguments."""
    b_BTND[:, 0].addcmul_(g_BTND[:, 0], first_BND)
    shift, T = 1, b_BTND.shape[1]
    while shift < T:
        b_BTND[:, shift:] = torch.addcmul(b_BTND[:, shift:], g_BTND[:, shift:], b_BTND[:, :-shift])
        if 2 * shift < T:
            g_BTND[:, shift:] = g_BTND[:, shift:] * g_BTND[:, :-shift]
        shift *= 2
    return torch.cat((first_BND[:, None], b_BTND[:, :-1]), 1), b_BTND[:, -1].clone()


def _memories(w_BTN: Tensor, e_BTD: Tensor, a_BTD: Tensor, M_BND: Tensor) -> tuple[Tensor, Tensor]:
    w_BTN1 = w_BTN[..., None]
    return _scan(1 - w_BTN1 * e_BTD[:, :, None], w_BTN1 * a_BTD[:, :, None], M_BND)


def _gradients(
    w_BTN: Tensor, e_BTD: Tensor, a_BTD: Tensor, r_BTD: Tensor, M_BND: Tensor, G_BND: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of a chunk's w, e and a, and of the memory before it, M; from those of its reads, r, and of the
    memory after it, G."""
    M_BTND, _ = _memories(w_BTN, e_BTD, a_BTD, M_BND)
    back_BTN1 = w_BTN.flip(1)[..., None]
    g_BTND, b_BTND = 1 - back_BTN1 * e_BTD.flip(1)[:, :, None], back_BTN1 * r_BTD.flip(1)[:, :, None]
    G_BTND, G_BND = _scan(g_BTND, b_BTND, G_BND)
    del g_BTND, b_BTND
    G_BTND = G_BTND.flip(1)
    grad_a_BTD = torch.einsum("btn,btnd->btd", w_BTN, G_BTND)
    grad_w_BTN = torch.einsum("btnd,btd->btn", G_BTND, a_BTD) + torch.einsum("btnd,btd->btn", M_BTND, r_BTD)
    both_BTND = M_BTND.mul_(G_BTND)
    grad_e_BTD = -torch.einsum("btn,btnd->btd", w_BTN, both_BTND)
    grad_w_BTN -= torch.einsum("btnd,btd->btn", both_BTND, e_BTD)
    return grad_w_BTN, grad_e_BTD, grad_a_BTD, G_BND


def gather_rows(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of each step; without weight, padding neither reads nor writes."""
    real_BS = torch.arange(question_BS.shape[1], device=length_B.device) < length_B[:, None]
    question_BS, row_BS = question_BS.masked_fill(~real_BS, 0), row_BS.masked_fill(~real_BS, 0)
    return w_QN[question_BS] * real_BS[:, :, None], e_RD[row_BS], a_RD[row_BS]


def _run_forward(inputs: Sequence[Tensor], save: bool, T: int) -> tuple[Tensor, Tensor, Tensor]:
    w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, length_B = inputs
    M_BND, reads, saved = start_XND.expand(len(question_BS), -1, -1), [], []
    for t in range(0, question_BS.shape[1], T):
        saved.append(M_BND)
        steps = question_BS[:, t : t + T], row_BS[:, t : t + T], length_B - t
        w_BTN, e_BTD, a_BTD = gather_rows(w_QN, e_RD, a_RD, *steps)
        before_BTND, M_BND = _memories(w_BTN, e_BTD, a_BTD, M_BND)
        reads.append(torch.einsum("btn,btnd->btd", w_BTN, before_BTND))
    return torch.cat(reads, 1), M_BND, torch.stack(saved) if save else M_BND


def _run_backward(*tensors: Tensor, T: int) -> None:
    w_QN, e_RD, a_RD, _, question_BS, row_BS, length_B, saved, grad_reads_BSD, grad_final_BND, *grads = tensors
    (grad_w_BSN,), (grad_e_BSD,), (grad_a_BSD,), grad_start_BND = grads
    G_BND = grad_final_BND if len(grad_final_BND) else torch.zeros_like(grad_start_BND)
    for t in range((question_BS.shape[1] - 1) // T * T, -1, -T):
        now = slice(t, t + T)
        rows = gather_rows(w_QN, e_RD, a_RD, question_BS[:, now], row_BS[:, now], length_B - t)
        grad_w_BSN[:, now], grad_e_BSD[:, now], grad_a_BSD[:, now], G_BND = _gradients(
            *rows, grad_reads_BSD[:, now], saved[t // T], G_BND
        )
    grad_start_BND.copy_(G_BND)


def _sum_rows(grads: Sequence[Tensor], index_BS: Tensor, length_B: Tensor, rows: int) -> list[Tensor]:
    """Sums the steps' gradients for each row of the table, in the order of the steps, also on CUDA, where the order of
    `index_add` is not deterministic. Padding has a row of its own at the end."""
    real_BS = torch.arange(index_BS.shape[1], device=length_B.device) < length_B[:, None]
    key, order = torch.where(real_BS, index_BS, rows).flatten().sort(stable=True)
    begins = torch.searchsorted(key, torch.arange(rows + 2, device=key.device))
    return [torch.segment_reduce(grad.flatten(0, 2)[order], "sum", offsets=begins, axis=0)[:-1] for grad in grads]


def scan(*inputs: Tensor, steps: int | None = None) -> tuple[Tensor, Tensor]:
    """What `memory.loop` does, `steps` at a time."""
    (B, S), (N, D) = inputs[4].shape, inputs[3].shape[1:]
    T = steps or chunk(B, S, N, D)
    kernels = Kernels(D, functools.partial(_run_forward, T=T), functools.partial(_run_backward, T=T), _sum_rows)
    return apply(kernels, inputs)
