"""Random cases for the memory, and how an engine's numbers are compared with the loop's."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from brimful.gpcm.model import memory


class Case(NamedTuple):
    """Tables, start and steps, in the order in which the engines take them."""

    w_QN: Tensor
    e_RD: Tensor
    a_RD: Tensor
    start_XND: Tensor
    question_BS: Tensor
    row_BS: Tensor
    length_B: Tensor

    def to(self, kind: torch.dtype | str) -> "Case":
        """With other tables: in another precision, or on another device."""
        moved = (each.detach().to(kind).requires_grad_() for each in self[:4])
        return Case(*moved, *(self[4:] if isinstance(kind, torch.dtype) else (each.to(kind) for each in self[4:])))


def draw(
    B: int,
    S: int,
    N: int,
    D: int,
    Q: int,
    K: int,
    *,
    seed: int = 0,
    own: bool = False,
    lengths: list[int] | None = None,
) -> Case:
    """A case as the model makes them: weights from a softmax, erasures from a sigmoid, additions from a tanh."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    w_QN, e_RD, a_RD = (2 * normal(Q, N)).softmax(1), (2 * normal(Q * K, D)).sigmoid(), normal(Q * K, D).tanh()
    start_XND = normal(B if own else 1, N, D)
    question_BS = torch.randint(Q, (B, S), generator=generator)
    row_BS = question_BS * K + torch.randint(K, (B, S), generator=generator)
    length_B = (
        torch.randint(S + 1, (B,), generator=generator) if lengths is None else torch.tensor(lengths, dtype=torch.int64)
    )
    # What the padding holds must never matter: indices far outside the tables would be noticed.
    padding_BS = torch.arange(S) >= length_B[:, None]
    question_BS[padding_BS], row_BS[padding_BS] = 10**12, -(10**12)
    for each in (w_QN, e_RD, a_RD, start_XND):
        each.requires_grad_()
    return Case(w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, length_B)


Engine = Callable[..., tuple[Tensor, Tensor]]


def numbers(engine: Engine, case: Case, final: bool = True, **options) -> list[Tensor]:
    """Reads, final memory, and the gradients of some function of them with respect to the tables and the start."""
    reads_BSD, final_BND = engine(*case, **options)
    weight_BSD = torch.linspace(-1, 2, reads_BSD.numel(), dtype=reads_BSD.dtype, device=reads_BSD.device)
    value = (weight_BSD.view_as(reads_BSD) * reads_BSD).sum() + (reads_BSD**2).sum()
    if final:
        value = value + (final_BND**3).sum()
    return [reads_BSD.detach(), final_BND.detach(), *torch.autograd.grad(value, case[:4], materialize_grads=True)]


def gap(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference, relative to the largest number of the same tensor."""
    gaps = [0.0]
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        if other.numel():
            other = other.to(one.device)
            assert torch.isfinite(one).all()
            gaps.append(float((one.double() - other).abs().max() / other.abs().max().clamp_min(1e-300)))
    return max(gaps)


@st.composite
def cases(draws: st.DrawFn, most_steps: int = 40, most_values: int = 70) -> Case:
    B, S = draws(st.integers(1, 4)), draws(st.integers(1, most_steps))
    N, D = draws(st.integers(1, 9)), draws(st.integers(1, most_values))
    Q, K = draws(st.integers(1, 6)), draws(st.integers(1, 4))
    lengths = draws(st.lists(st.sampled_from([0, 1, S]) | st.integers(0, S), min_size=B, max_size=B))
    return draw(B, S, N, D, Q, K, seed=draws(st.integers(0, 10**6)), own=draws(st.booleans()), lengths=lengths)


def plain(case: Case, final: bool = True) -> list[Tensor]:
    """The numbers to compare with: the loop's, in float64."""
    return numbers(memory.loop, case.to(torch.float64), final)
