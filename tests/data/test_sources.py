"""Sources: what is read, from what, and what is refused with which advice."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import BrimfulWarning, InputError
from brimful.data import Decoded, Ragged, Source, Subset, source

from .datasets import none_left, run, same, small, unpadded

pytestmark = pytest.mark.usefixtures("one_thread")

ALL = np.arange(4)


def test_a_npy_file_is_mapped_and_gives_the_same_batches_as_the_array(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    for name, array in (("c", x), ("fortran", np.asfortranarray(x))):
        np.save(tmp_path / f"{name}.npy", array)
        for tier in ("device", "pinned"):
            batches = run(str(tmp_path / f"{name}.npy"), tier=tier)
            assert same(list(batches.epoch(1)), list(run(x).epoch(1)))


def test_a_npz_file_is_a_dict(tmp_path: Path):
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(8.0).reshape(4, 2), y=np.arange(4))
    rows = source(tmp_path / "a.npz")
    assert len(rows) == 4 and rows.nbytes == rows.held == 4 * (16 + 8)
    assert {name: part.tolist() for name, part in rows.take(ALL).items()} == {
        "x": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "y": [0, 1, 2, 3],
    }
    assert list(source(tmp_path / "a.npz", columns=["y"]).take(ALL)) == ["y"]


def parquet(path: Path, table: dict[str, Any], group: int = 3) -> Path:
    pq.write_table(pa.table(table), path, row_group_size=group)
    return path


def test_a_parquet_file_is_a_dict_with_ragged_lists(tmp_path: Path):
    lists = [[1, 2], [], [3], [4, 5, 6], [7]]
    table = {
        "x": pa.array([0.5, None, 2.0, 3.0, 4.0], pa.float32()),
        "n": pa.array(range(5), pa.int16()),
        "flag": pa.array([True, False, True, True, False]),
        "words": pa.array(lists, pa.list_(pa.int32())),
        "large": pa.array(lists, pa.large_list(pa.float64())),
        "pairs": pa.array([[[1.0, 2.0]] * len(each) for each in lists], pa.list_(pa.list_(pa.float32(), 2))),
        "even": pa.array([[1, 2]] * 5, pa.list_(pa.int64())),
        "fixed": pa.array([[1.0, 2.0, 3.0]] * 5, pa.list_(pa.float32(), 3)),
    }
    rows = source(parquet(tmp_path / "a.parquet", table))
    before = {name: (field.dtype, field.shape, field.lengths is None) for name, field in rows.fields.items()}
    assert before["words"] == (torch.int32, (), False) and before["pairs"] == (torch.float32, (2,), False)
    assert before["even"] == (torch.int64, (2,), True) and before["fixed"] == (torch.float32, (3,), True)
    batch = rows.take(np.array([3, 1, 0]))
    assert batch["x"].isnan().tolist() == [False, True, False]
    assert batch["n"].tolist() == [3, 1, 0] and batch["n"].dtype == torch.int16
    assert batch["flag"].tolist() == [True, False, True]
    assert batch["words"].values.tolist() == [4, 5, 6, 1, 2] and batch["words"].offsets.tolist() == [0, 3, 3, 5]
    assert batch["large"].values.dtype == torch.float64
    assert batch["pairs"].values.tolist() == [[1, 2]] * 5
    assert batch["even"].tolist() == [[1, 2]] * 3 and batch["fixed"].shape == (3, 3)
    padded = next(run(rows, batch_size=5, shuffle=False).epoch(0))["words"]
    assert unpadded(padded) == lists


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(-5, 5), max_size=4), min_size=1, max_size=12), st.integers(1, 5))
def test_lists_come_back_from_parquet_as_they_went(tmp_path_factory, lists: list[list[int]], group: int):
    path = tmp_path_factory.mktemp("lists") / "a.parquet"
    rows = source(parquet(path, {"w": pa.array(lists, pa.list_(pa.int64()))}, group))
    part = rows.take(np.arange(len(lists)))["w"]
    if isinstance(part, Ragged):
        starts = part.offsets.tolist()
        found = [part.values[a:b].tolist() for a, b in itertools.pairwise(starts)]
    else:
        found = part.tolist()
    assert found == lists


def test_a_folder_of_parquet_files_is_one_dataset(tmp_path: Path):
    for place in range(3):
        numbers = np.arange(place * 5, place * 5 + 5)
        parquet(
            tmp_path / f"{place}.parquet", {"n": numbers, "w": pa.array([[place] * place] * 5, pa.list_(pa.int64()))}
        )
    rows = source(tmp_path)
    assert rows.take(np.array([14, 0, 7]))["n"].tolist() == [14, 0, 7]
    assert rows.take(np.array([14, 0, 7]))["w"].values.tolist() == [2, 2, 1]


def test_columns_that_are_not_numbers_are_left_out_unless_asked_for(tmp_path: Path):
    path = parquet(tmp_path / "a.parquet", {"name": ["a", "b"], "x": [1.0, 2.0]})
    with pytest.warns(BrimfulWarning, match="left out of the batch: name"):
        assert list(source(path).fields) == ["x"]
    assert list(source(path, columns=["x"]).fields) == ["x"]
    with pytest.raises(InputError, match="the columns name hold no numbers"):
        source(path, columns=["name", "x"])


def test_a_named_tuple_keeps_its_kind():
    class Pair(NamedTuple):
        x: torch.Tensor
        y: torch.Tensor

    batch = next(run(Pair(torch.arange(4), torch.ones(4))).epoch(0))
    assert type(batch) is Pair and batch.y.tolist() == [1] * 4


def test_arrays_that_torch_would_not_take_as_they_are():
    x = np.arange(6)[::-1]
    assert source(x).take([0, 5]).tolist() == [5, 0]
    frozen = np.arange(3)
    frozen.flags.writeable = False
    assert source(frozen).take([2]).tolist() == [2]
    assert not source(torch.ones(3, requires_grad=True)).take([0]).requires_grad
    assert source(torch.tensor([1 + 1j, 2]).conj()).take([0]).tolist() == [1 - 1j]


class Squares:
    """A source of one's own."""

    def __len__(self) -> int:
        return 20

    def take(self, index: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        assert len(index)
        numbers = torch.from_numpy(index)
        return numbers, numbers**2


def test_a_source_of_ones_own():
    assert isinstance(Squares(), Source)
    batches = [list(run(Squares(), tier=tier, fingerprint="squares").epoch(0)) for tier in ("device", "pinned")]
    assert same(*batches)
    assert all(torch.equal(x**2, y) for x, y in batches[0])
    parts = [list(run(Squares(), rank=rank, ranks=9, tier="pinned").epoch(0)) for rank in range(9)]
    assert [len(batch[0]) for batch in parts[0]] == [0] * 5  # and it was not asked for nothing
    with pytest.raises(InputError, match="a Squares has no fingerprint"):
        run(Squares()).state()
    assert run(Squares(), fingerprint="squares").state()["fingerprint"] == "squares"
    known = Squares()
    known.fingerprint = lambda: "v1"  # pyright: ignore[reportAttributeAccessIssue]
    assert run(known).state()["fingerprint"] == "v1"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda index: index.tolist(), "take gave a list"),
        (lambda index: torch.zeros(7), r"shape \(7,\) for 1 samples"),
        (lambda index: {}, "take has no fields"),
        (lambda index: torch.zeros(len(index), len(index)), "for one index and"),
        (lambda index: torch.zeros(len(index), dtype=torch.float32 if len(index) == 1 else torch.int64), "dtypes and"),
    ],
)
def test_a_source_that_gives_something_else_is_refused(answer: Any, told: str):
    class Odd:
        def __len__(self) -> int:
            return 5

        def take(self, index: np.ndarray) -> Any:
            return answer(index)

    with pytest.raises(InputError, match=told):
        list(run(Odd(), tier="pinned").epoch(0))


def test_decoding_keeps_the_order_with_any_number_of_workers():
    texts = [f"{number} {number * 2}" for number in range(50)]

    def decode(text: str) -> dict[str, Any]:
        one, two = map(float, text.split())
        return {"x": np.array([one, two]), "n": int(one)}

    expected = list(run({"x": torch.tensor([[n, 2.0 * n] for n in range(50)]).double(), "n": list(range(50))}).epoch(0))
    for tier in ("device", "pinned"):
        for workers in (0, 1, 3):
            assert same(list(run(Decoded(texts, decode), tier=tier, num_workers=workers).epoch(0)), expected)
    assert none_left()
    some = run(Subset(Decoded(texts, decode), [7, 9]), num_workers=2, tier="pinned", shuffle=False)
    assert next(some.epoch(0))["n"].tolist() == [7, 9]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_cannot_be_decoded_is_named(workers: int):
    samples = ["1", "2", "three", "4"]
    with pytest.raises(InputError, match=r"sample 2 \('three'\) could not be decoded: ValueError") as caught:
        list(run(Decoded(samples, lambda text: torch.tensor(int(text))), num_workers=workers, tier="pinned").epoch(0))
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(InputError, match=r"sample 1 .*float32 .* others .*all\s+must be alike"):
        list(run(Decoded([1, 2], torch.zeros), num_workers=workers, tier="device").epoch(0))


def test_decoded_samples_are_known_by_their_content_and_decoder():
    double, triple = (lambda x: torch.tensor(x * 2)), (lambda x: torch.tensor(x * 3))
    states = [run(Decoded(*each)).state() for each in (([1, 2], double), ([1, 2], triple), ([1, 3], double))]
    assert len({state["fingerprint"] for state in states}) == 3
    with pytest.raises(InputError, match="pass fingerprint="):
        run(Decoded([object()], lambda _: torch.ones(1))).state()


def test_a_subset_of_a_subset():
    rows = Subset(Subset(torch.arange(100, 120), range(0, 20, 2)), [1, 1, 4])
    assert rows.take([0, 1, 2]).tolist() == [102, 102, 108]
    one, two = (run(Subset(torch.arange(5), index)).state() for index in ([0, 1], [1, 2]))
    assert one["fingerprint"] != two["fingerprint"]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ([0, 5], "from 0 to 5, but the source has 5"),
        ([-1], "from -1"),
        ([True, False], "np.flatnonzero"),
        ([], "no samples"),
        ([[1]], "shape"),
        ([0.5], "float64"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(index: Any, told: str):
    with pytest.raises(InputError, match=told):
        Subset(torch.arange(5), index)


OFFSETS = torch.tensor([0, 2, 1, 3])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (torch.empty(0, 3), "no samples"),
        ([], "no samples"),
        ({}, "no fields"),
        (object(), "object that cannot become a tensor"),
        ({"x": torch.ones(3), "y": torch.ones(4)}, r"different numbers of samples \(x: 3, y: 4\)"),
        (np.array([{}, None]), "Python objects"),
        (["a", "b"], "cannot become a tensor"),
        ([[1, 2], [3]], r"data\.Ragged"),
        (np.array(["2020-01-01"], "M8[D]"), "cannot become a tensor"),
        (torch.tensor(1.0), "a single number"),
        ({1: torch.ones(2), "1": torch.ones(2)}, "written alike"),
        (torch.eye(3).to_sparse(), "to_dense"),
        (Ragged(torch.arange(3), OFFSETS), "offsets must rise from 0"),
        (Ragged(torch.arange(9), torch.tensor([0, 3])), "number of values, 9"),
        (Ragged(torch.arange(3), torch.tensor([0])), "number of values|no samples"),
        (pa.table({"x": [1, None]}), "column 'x' is null in row 1"),
    ],
)
def test_data_that_cannot_be_read_is_refused(wrong: Any, told: str):
    with pytest.raises(InputError, match=told):
        run(wrong)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist; check the path"):
        run(tmp_path / "none.npy")
    (tmp_path / "a.txt").write_text("1 2 3")
    with pytest.raises(InputError, match=r"not a \.npy, \.npz, \.csv or \.parquet file"):
        run(tmp_path / "a.txt")
    np.save(tmp_path / "good.npy", np.arange(1000))
    whole = (tmp_path / "good.npy").read_bytes()
    for name, content in (("short", whole[:4000]), ("head", whole[:40]), ("none", b""), ("other", b"rubbish" * 100)):
        (tmp_path / f"{name}.npy").write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}\.npy cannot be read.*write it again"):
            run(tmp_path / f"{name}.npy")
        (tmp_path / f"{name}.npz").write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}\.npz cannot be read.*write it again"):
            run(tmp_path / f"{name}.npz")
        (tmp_path / f"{name}.parquet").write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}\.parquet cannot be read"):
            run(tmp_path / f"{name}.parquet")
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", x=np.array([{}, None]))
    np.savez(tmp_path / "scalar.npz", x=3.0)
    np.savez(tmp_path / "unequal.npz", x=np.ones(3), y=np.ones(4))
    for name, told in (("objects.npy", "object"), ("objects.npz", "Python objects"), ("scalar.npz", "single number"),
                       ("unequal.npz", "x: 3, y: 4")):  # fmt: skip
        with pytest.raises(InputError, match=told):
            run(tmp_path / name)


def test_wrong_columns_are_refused_with_those_there_are(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.ones(3), y=np.ones(3))
    np.save(tmp_path / "a.npy", np.ones(3))
    path = parquet(tmp_path / "a.parquet", {"x": [1.0], "y": [2]})
    for what in (tmp_path / "a.npz", path, {"x": np.ones(3), "y": np.ones(3)}):
        with pytest.raises(InputError, match="has no column 'z'; there are x, y"):
            source(what, columns=["x", "z"])
        with pytest.raises(InputError, match="give a list of names"):
            source(what, columns="x")  # pyright: ignore[reportArgumentType]
    for what in (tmp_path / "a.npy", np.ones(3)):
        with pytest.raises(InputError, match="columns"):
            source(what, columns=["x"])


def test_nulls_that_no_nan_can_stand_for_are_refused(tmp_path: Path):
    path = parquet(tmp_path / "a.parquet", {"n": [1, 2, 3, 4, None, 6]})
    with pytest.raises(InputError, match="column 'n' is null in row 4"):
        next(run(path).epoch(0))
    path = parquet(tmp_path / "b.parquet", {"w": [[1], None]})
    with pytest.raises(InputError, match="column 'w' is null in row 1"):
        next(run(path).epoch(0))
    path = parquet(tmp_path / "c.parquet", {"w": [[1], [2, None]]})
    with pytest.raises(InputError, match="column 'w' is null in row 1"):
        next(run(path).epoch(0))
    path = parquet(tmp_path / "d.parquet", {"s": ["a"]})
    with pytest.raises(InputError, match="none of the columns s holds numbers"):
        run(path)
    path = parquet(tmp_path / "e.parquet", {"x": pa.array([], pa.float32())})
    with pytest.raises(InputError, match="no samples"):
        run(path)


def test_nan_is_a_value_like_any_other():
    data = small(6)
    data["x"][2, 1] = float("nan")
    batches = [list(run(data, tier=tier).epoch(0)) for tier in ("device", "pinned")]
    for one, two in zip(*batches, strict=True):
        assert torch.equal(one["x"].isnan(), two["x"].isnan())
        assert torch.equal(one["x"].nan_to_num(), two["x"].nan_to_num())


def test_ragged_samples_that_differ_in_more_than_length_are_refused():
    with pytest.raises(InputError, match="more than their length"):
        Ragged.of([torch.ones(2, 3), torch.ones(1, 4)])
    with pytest.raises(InputError, match="at least one"):
        Ragged.of([])
    assert len(Ragged.of([[], []])) == 2
