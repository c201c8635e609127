"""The memory: what it means, and that its engines on the CPU give the same numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from brimful.core.base.errors import ConfigError, InputError
from brimful.gpcm.model import memory
from brimful.gpcm.model.memory_numba import native
from brimful.gpcm.model.memory_scan import scan

from ..helpers.recurrence import Case, cases, draw, gap, numbers, plain

ENGINES = {"loop": memory.loop, "native": native, "scan": scan}
BOUND = {torch.float64: 1e-10, torch.float32: 5e-6}
"""The largest difference from the loop in float64, relative to the largest number of the same tensor."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def poisoned():
    """Memory that nobody wrote to is not a number, instead of what happens to be there."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("poisoned")
@given(cases(), st.booleans())
def test_native_is_the_loop(case: Case, final: bool):
    assert gap(numbers(native, case, final), plain(case, final)) < BOUND[torch.float64]


@pytest.mark.usefixtures("poisoned")
@given(cases(), st.booleans(), st.sampled_from([None, 1, 3, 8]))
def test_scan_is_the_loop(case: Case, final: bool, steps: int | None):
    assert gap(numbers(scan, case, final, steps=steps), plain(case, final)) < BOUND[torch.float64]


@pytest.mark.parametrize("name", ENGINES)
def test_single_precision_loses_little(name: str):
    case = draw(6, 200, 20, 50, 7, 4, seed=3)
    assert gap(numbers(ENGINES[name], case.to(torch.float32)), plain(case)) < BOUND[torch.float32]


@pytest.mark.parametrize("name", ENGINES)
def test_gradients_are_those_of_finite_differences(name: str):
    case = draw(2, 5, 3, 2, 3, 2, own=name == "scan", lengths=[5, 3])
    assert torch.autograd.gradcheck(lambda *tables: ENGINES[name](*tables, *case[4:]), case[:4])


@pytest.mark.parametrize("name", ENGINES)
def test_a_read_does_not_know_its_own_answer_nor_later_ones(name: str):
    case = draw(3, 40, 5, 33, 4, 3, lengths=[40, 40, 40])
    reads = memory.run(*case, engine=name)[0]
    for t in (0, 17, 39):
        row_BS = case.row_BS.clone()
        row_BS[:, t] = (row_BS[:, t] + 1) % len(case.e_RD)
        other = memory.run(*case._replace(row_BS=row_BS), engine=name)[0]
        assert torch.equal(other[:, : t + 1], reads[:, : t + 1])
        assert t == 39 or not torch.equal(other[:, t + 1], reads[:, t + 1])


@pytest.mark.parametrize("name", ENGINES)
def test_padding_reads_nothing_and_changes_no_bit(name: str):
    case = draw(3, 20, 5, 9, 4, 3, lengths=[20, 7, 0])
    reads, final, *gradients = numbers(ENGINES[name], case)
    assert not reads[1, 7:].any() and not reads[2].any()
    assert torch.equal(final[2], case.start_XND[0])
    other = case._replace(question_BS=case.question_BS.clone(), row_BS=case.row_BS.clone())
    other.question_BS[1, 7:], other.row_BS[2] = -5, 3
    for one, two in zip([reads, final, *gradients], numbers(ENGINES[name], other), strict=True):
        assert torch.equal(one, two)


def test_a_longer_padding_changes_no_number():
    case = draw(3, 20, 5, 9, 4, 3, lengths=[20, 7, 0])
    longer = [torch.nn.functional.pad(each, (0, 13), value=-1) for each in (case.question_BS, case.row_BS)]
    for engine in ENGINES.values():
        wanted = engine(*case)
        found = engine(*case._replace(question_BS=longer[0], row_BS=longer[1]))
        torch.testing.assert_close(found[0][:, :20], wanted[0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found[1], wanted[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_native_gives_the_same_bits_each_time_with_any_number_of_threads(kind: torch.dtype):
    case = draw(9, 50, 5, 70, 4, 3).to(kind)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 2, 5):
        torch.set_num_threads(threads)
        found.append(numbers(native, case))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_scan_gives_the_same_bits_each_time():
    case = draw(4, 50, 5, 9, 4, 3)
    assert all(torch.equal(one, two) for one, two in zip(numbers(scan, case), numbers(scan, case), strict=True))


def test_a_student_is_not_changed_by_the_others():
    case = draw(5, 30, 4, 6, 4, 2)
    alone = case._replace(**{name: getattr(case, name)[2:3] for name in ("question_BS", "row_BS", "length_B")})
    assert torch.equal(memory.run(*alone)[0], memory.run(*case)[0][2:3])


@pytest.mark.parametrize("name", ENGINES)
def test_going_on_from_the_memory_reached_is_going_through(name: str):
    case = draw(3, 30, 4, 6, 4, 2, lengths=[30, 30, 30])
    whole, final = memory.run(*case, engine=name)
    first, between = memory.run(*case[:4], case[4][:, :11], case[5][:, :11], torch.full((3,), 11), engine=name)
    rest, end = memory.run(*case[:3], between, case[4][:, 11:], case[5][:, 11:], torch.full((3,), 19), engine=name)
    torch.testing.assert_close(torch.cat((first, rest), 1), whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(end, final, rtol=1e-12, atol=1e-12)
    for one, two in zip(
        torch.autograd.grad(rest.sum() + first.sum(), case[:4]), torch.autograd.grad(whole.sum(), case[:4]), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("B", "S"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_do_gives_nothing(name: str, B: int, S: int):
    case = draw(B, S, 2, 3, 4, 2, lengths=[0] * B)
    reads, final = memory.run(*case, engine=name)
    assert reads.shape == (B, S, 3) and final.shape == (B, 2, 3)
    gradients = torch.autograd.grad(reads.sum() + final.sum(), case[:4])
    assert not any(each.any() for each in gradients[:3])
    assert torch.equal(gradients[3], torch.full_like(case.start_XND, B))


def test_tensors_need_not_be_contiguous_nor_of_one_integer_type():
    case = draw(4, 20, 6, 10, 4, 2)
    tables = [each.detach().mT.contiguous().mT.requires_grad_() for each in case[:4]]
    steps = [case.question_BS.clamp(0, 3).mT.int().contiguous().mT, case.row_BS.clamp(0, 7).mT.contiguous().mT]
    wanted = memory.run(*case[:4], steps[0], steps[1], case.length_B, engine="loop")[0]
    for name in ENGINES:
        found = memory.run(*Case._make([*tables, *steps, case.length_B.int()]), engine=name)[0]
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
        grad = torch.ones(10, 4, 20, dtype=torch.float64).permute(1, 2, 0)
        torch.autograd.grad(found, tables, grad)


def test_only_what_needs_a_gradient_gets_one():
    case = draw(3, 20, 5, 9, 4, 3)
    with torch.no_grad():
        assert not memory.run(*case)[0].requires_grad
    frozen = Case._make(each.detach() for each in case)
    assert not memory.run(*frozen)[0].requires_grad
    only = frozen._replace(a_RD=case.a_RD)
    for name in ENGINES:
        (gradient,) = torch.autograd.grad(memory.run(*only, engine=name)[0].sum(), [case.a_RD])
        (wanted,) = torch.autograd.grad(memory.run(*case, engine="loop")[0].sum(), [case.a_RD])
        torch.testing.assert_close(gradient, wanted, rtol=1e-12, atol=1e-12)


def test_the_states_are_the_memories_between():
    case = draw(3, 12, 4, 5, 3, 2, lengths=[12, 5, 0])
    every = memory.states(*case)
    assert every.shape == (3, 13, 4, 5)
    assert torch.equal(every[:, 0], case.start_XND.expand(3, -1, -1))
    assert torch.equal(every[:, -1], memory.run(*case, engine="loop")[1])
    assert torch.equal(every[1, 5], every[1, 12]) and not torch.equal(every[1, 4], every[1, 5])
    weights = case.w_QN[case.question_BS[0]]
    torch.testing.assert_close(torch.einsum("sn,snd->sd", weights, every[0, :-1]), memory.run(*case)[0][0])


def test_what_auto_stands_for(monkeypatch: pytest.MonkeyPatch):
    gpu = torch.device("cuda")
    assert memory.pick(torch.device("cpu"), 64, 200, 50, 128) == "native"
    monkeypatch.setattr(memory, "find_spec", lambda name: object())
    assert memory.pick(gpu, 64, 200, 50, 128) == "fused"
    assert memory.pick(gpu, 1, 20_000, 50, 128) == "fused"
    monkeypatch.setattr(memory, "find_spec", lambda name: None)
    assert memory.pick(gpu, 64, 200, 50, 128) == "scan"
    assert memory.pick(gpu, 64, 3, 50, 128) == "loop"
    assert memory.pick(gpu, 4096, 200, 50, 128) == "loop"
    with pytest.raises(ConfigError, match="not installed"):
        memory.run(*draw(1, 1, 1, 1, 1, 1), engine="fused")[0]


def wrong(change: dict[str, Tensor]) -> Case:
    return draw(2, 3, 4, 5, 6, 2, lengths=[3, 2])._replace(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w_QN": torch.ones(6)}, r"\(Q, N\)"),
        ({"length_B": torch.ones(2, 1, dtype=torch.int64)}, r"\(B,\)"),
        ({"e_RD": torch.ones(11, 5)}, "e and a must agree"),
        ({"row_BS": torch.zeros(2, 4, dtype=torch.int64)}, "question, row and length"),
        ({"length_B": torch.tensor([1, 1, 1])}, "question, row and length"),
        ({"start_XND": torch.ones(4, 6)}, r"must be \(4, 5\) or \(2, 4, 5\)"),
        ({"start_XND": torch.ones(4, 5)}, "all float32, or all float64"),
        ({"row_BS": torch.zeros(2, 3)}, "int32 or int64"),
        ({"w_QN": torch.ones(6, 4, dtype=torch.float64, device="meta")}, "one device"),
        ({"w_QN": torch.ones(0, 4, dtype=torch.float64)}, "there must be"),
        ({"w_QN": torch.ones(6, 0, dtype=torch.float64)}, "there must be"),
        ({"length_B": torch.tensor([3, 4])}, "3 to 4 before padding; it must be within 0 and 3"),
        ({"length_B": torch.tensor([-1, 3])}, "-1 to 3"),
        ({"question_BS": torch.tensor([[0, 6, 0], [0, 0, 0]])}, "question goes from 0 to 6.*0 and 5"),
        ({"row_BS": torch.tensor([[0, -1, 0], [0, 0, 0]])}, "row goes from -1 to 0.*0 and 11"),
    ],
)
def test_invalid_inputs(change: dict[str, Tensor], message: str):
    with pytest.raises(InputError, match=message):
        memory.run(*wrong(change))


def test_an_engine_that_is_not_there():
    with pytest.raises(ConfigError, match="'magic'; it must be one of auto, fused, loop"):
        memory.run(*wrong({}), engine="magic")[0]
