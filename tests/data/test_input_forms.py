"""Every form of input that users of torch, pandas, polars, Arrow and Hugging Face have, in `map` and in `train`."""

import datetime
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch
import torch.utils.data as torch_data

import brimful
from brimful import InputError
from brimful.data import Decoded, Ragged, Subset, source

N = 37
X = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5], np.float32)).astype(np.float32)
NAMES = ("a", "b", "c", "y")
COLUMNS = {**{name: X[:, index].copy() for index, name in enumerate("abc")}, "y": Y}


STACK: Any = torch_data.StackDataset  # which takes arrays too


class ByIndex(torch_data.Dataset):
    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> list[Any]:
        return [torch.from_numpy(X[index]), float(Y[index])]


class ByIteration(torch_data.IterableDataset):
    def __iter__(self) -> Iterator[tuple[np.ndarray, np.float32]]:
        return zip(X, Y, strict=True)


class Columnar:
    """As Hugging Face's datasets are: named columns, slices and lists of indices give a dict of columns."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = {name: list(values) for name, values in columns.items()}
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(self.columns[self.column_names[0]])

    def __getitem__(self, key: Any) -> dict[str, Any]:
        index = range(len(self))[key] if isinstance(key, slice) else [key] if isinstance(key, int) else key
        return {name: [values[number] for number in index] for name, values in self.columns.items()}


class Formatted(Columnar):
    """The same with types of columns and a format, as `with_format` and `with_transform` set it."""

    def __init__(self, table: pa.Table, kind: str | None = None, columns: Any = None, change: Any = None) -> None:
        self.table, self.column_names = table, table.column_names
        self.format, self.shown, self.change = {"type": kind}, columns or table.column_names, change

    def __len__(self) -> int:
        return self.table.num_rows

    def with_format(self, kind: str | None, columns: Any = None) -> "Formatted":
        return Formatted(self.table, kind, columns)

    def with_transform(self, change: Any) -> "Formatted":
        return Formatted(self.table, "custom", change=change)

    def __getitem__(self, key: Any) -> Any:
        rows = self.table.slice(key.start or 0, key.stop - (key.start or 0)) if isinstance(key, slice) else (
            self.table.take(key)
        )  # fmt: skip
        rows = rows.select(self.shown)
        lists = {name: rows[name].to_pylist() for name in self.shown}
        match self.format["type"]:
            case "arrow":
                return rows
            case "polars":
                return pl.from_arrow(rows)
            case "torch":
                return {name: torch.tensor(values) for name, values in lists.items()}
            case "custom":
                return self.change(lists)
        return lists


TYPED = pa.table(
    {
        "x": pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 3),
        "y": pa.array(Y),
        "n": pa.array(np.arange(N), pa.int32()),
        "half": pa.array(np.arange(N).astype(np.float16)),
    }
)


@pytest.mark.parametrize(
    ("form", "dtypes"),
    [
        (None, {"x": torch.float32, "y": torch.float32, "n": torch.int32, "half": torch.float16}),
        ("polars", {"x": torch.float32, "y": torch.float32, "n": torch.int32}),
        ("torch", {"y": torch.float32}),
        ("custom", {"twice": torch.float64}),
    ],
)
def test_a_dataset_with_a_format_is_read_in_it_and_one_without_by_its_types(form: Any, dtypes: dict[str, Any]):
    given = {
        None: lambda: Formatted(TYPED),
        "polars": lambda: Formatted(TYPED.drop_columns("half")).with_format("polars"),
        "torch": lambda: Formatted(TYPED).with_format("torch", columns=["y"]),
        "custom": lambda: Formatted(TYPED).with_transform(lambda rows: {"twice": [2 * y for y in rows["y"]]}),
    }[form]()
    dataset = source(given)
    assert {name: field.dtype for name, field in dataset.fields.items()} == dtypes
    found = dataset.take([3, 0])
    name, by = ("twice", 2) if form == "custom" else ("y", 1)
    np.testing.assert_allclose(found[name], by * Y[[3, 0]], rtol=1e-6)
    assert "x" not in dtypes or np.array_equal(found["x"], X[[3, 0]])
    result: Any = brimful.map(lambda rows: rows[name], given, device="cpu", progress=False)
    np.testing.assert_allclose(result.values, by * Y, rtol=1e-6)


def test_lists_of_unequal_length_of_a_dataset_with_types_are_ragged():
    dataset = source(Formatted(pa.table({"tokens": [[1, 2, 3], [4], []], "z": [1.0, None, 3.0]})))
    assert dataset.column("tokens").lengths.tolist() == [3, 1, 0]
    assert dataset.column("z").isnan().tolist() == [False, True, False]


def padded(samples: list[Any]) -> dict[str, Any]:
    """A collate_fn of the user's."""
    return {"x": torch.stack([x for x, _ in samples]), "y": np.array([y for _, y in samples], np.float32)}


def files(folder: Path) -> dict[str, Any]:
    table = pa.table(COLUMNS)
    pq.write_table(table, folder / "rows.parquet")
    pd.DataFrame(COLUMNS).to_csv(folder / "rows.csv", index=False)
    pd.DataFrame(COLUMNS).to_csv(folder / "rows.tsv.gz", index=False, sep="\t")
    np.save(folder / "x.npy", X)
    return {
        "Parquet": folder / "rows.parquet",
        "CSV": folder / "rows.csv",
        "TSV, compressed": str(folder / "rows.tsv.gz"),
        "Arrow dataset": pyarrow.dataset.dataset(folder / "rows.parquet"),
        "memory map": (np.load(folder / "x.npy", mmap_mode="r"), Y),
        "DataLoader of a memory map": torch_data.DataLoader(
            STACK(x=np.load(folder / "x.npy", mmap_mode="r"), y=Y), batch_size=8
        ),
    }


FORMS: dict[str, Callable[[Path], Any]] = {
    **{
        name: (lambda folder, name=name: files(folder)[name])
        for name in ("Parquet", "CSV", "TSV, compressed", "Arrow dataset", "memory map", "DataLoader of a memory map")
    },
    "arrays": lambda _: (X, Y),
    "big-endian arrays": lambda _: (X.astype(">f4"), Y.astype(">f4")),
    "nested dicts": lambda _: {"in": {"x": X}, "out": {"y": torch.from_numpy(Y)}},
    "Dataset by index": lambda _: ByIndex(),
    "TensorDataset": lambda _: torch_data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
    "Subset of torch's": lambda _: torch_data.Subset(ByIndex(), list(range(N))),
    "Dataset by iteration": lambda _: ByIteration(),
    "DataLoader": lambda _: torch_data.DataLoader(ByIndex(), batch_size=8),
    "DataLoader, shuffled": lambda _: torch_data.DataLoader(ByIndex(), batch_size=8, shuffle=True),
    "DataLoader by iteration": lambda _: torch_data.DataLoader(ByIteration(), batch_size=8),
    "DataLoader with a collate_fn": lambda _: torch_data.DataLoader(ByIndex(), batch_size=8, collate_fn=padded),
    "columns": lambda _: Columnar(COLUMNS),
    "columns of arrays": lambda _: Columnar({"x": X.tolist(), "y": Y.tolist()}),
    "pandas": lambda _: pd.DataFrame(COLUMNS),
    "polars": lambda _: pl.DataFrame(COLUMNS),
    "polars, lazy": lambda _: pl.DataFrame(COLUMNS).lazy().filter(pl.col("a").is_not_null()),
    "Arrow table": lambda _: pa.table(COLUMNS),
    "Arrow record batch": lambda _: pa.RecordBatch.from_pydict(COLUMNS),
    "Arrow reader": lambda _: pa.table(COLUMNS).to_reader(max_chunksize=10),
}


def parts(batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of a batch of whatever form."""
    match batch:
        case {"in": inner, "out": outer}:
            x, y = inner["x"], outer["y"]
        case {"a": a, "b": b, "c": c, "y": y}:
            x = torch.stack([a, b, c], -1)
        case {"x": x, "y": y}:
            pass
        case (x, y):
            pass
        case _:
            raise AssertionError(batch)
    return x.float(), y.float()


def scaled_sum(batch: Any) -> torch.Tensor:
    x, y = parts(batch)
    return x.sum(-1) + 2 * y


def squared_error(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    x, y = parts(batch)
    return (model(x).squeeze(-1) - y).square().mean()


@pytest.mark.parametrize("form", FORMS)
def test_map_takes_it(form: str, tmp_path: Path):
    result = brimful.map(scaled_sum, FORMS[form](tmp_path), device="cpu", progress=False)
    assert result.ok.all()
    torch.testing.assert_close(result.values, torch.from_numpy(X.sum(-1) + 2 * Y))


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.Tensor]:
    return weights((X, Y), batch_size=8, loader={"shuffle": False})


def weights(data: Any, **options: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    brimful.train(model, squared_error, data, epochs=2, lr=0.1, device="cpu", progress=False, **options)
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "DataLoader, shuffled"])
def test_train_takes_it_and_learns_the_same(form: str, trained: dict[str, torch.Tensor], tmp_path: Path):
    given = FORMS[form](tmp_path)
    options = {} if isinstance(given, torch_data.DataLoader) else {"batch_size": 8, "loader": {"shuffle": False}}
    torch.testing.assert_close(weights(given, **options), trained, rtol=1e-4, atol=1e-5)


def test_a_dataloader_says_the_batch_size_the_order_and_what_is_dropped():
    seen: list[int] = []

    def loss(model: torch.nn.Module, batch: Any) -> torch.Tensor:
        seen.append(len(batch[0]))
        return squared_error(model, batch)

    given = torch_data.DataLoader(ByIndex(), batch_size=10, drop_last=True)
    brimful.train(torch.nn.Linear(3, 1), loss, given, epochs=1, device="cpu", progress=False)
    assert seen[-3:] == [10, 10, 10]
    with pytest.raises(brimful.ConfigError, match="batch_size is 4 and the DataLoader's is 10; leave one out"):
        weights(given, batch_size=4)
    sizes: list[int] = []
    brimful.map(lambda batch: sizes.append(len(batch[0])) or batch[0], torch_data.DataLoader(ByIndex(), batch_size=9),
                device="cpu", progress=False)  # fmt: skip
    assert set(sizes) <= {9, N % 9, 1}


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (lambda: torch_data.DataLoader(ByIndex(), batch_size=None), "the DataLoader has no batch_size of its own"),
        (
            lambda: torch_data.DataLoader(
                ByIndex(), batch_size=4, sampler=torch_data.WeightedRandomSampler([1.0] * N, N)
            ),
            "the DataLoader's WeightedRandomSampler decides which samples come when",
        ),
        (
            lambda: torch_data.DataLoader(ByIndex(), batch_sampler=[[0, 1], [2]]),  # pyright: ignore[reportArgumentType]
            "the DataLoader's batch_sampler, a list, decides which samples come together",
        ),
        (lambda: torch_data.DataLoader(ByIteration(), batch_size=4, collate_fn=padded), "collate_fn for an Iterable"),
        (lambda: torch_data.DataLoader(ByIndex(), batch_size=4, drop_last=True), "map runs all items"),
    ],
)
def test_a_dataloader_that_cannot_be_honored_is_refused_with_the_reason(loader: Callable[[], Any], words: str):
    with pytest.raises(InputError, match=words):
        brimful.map(scaled_sum, loader(), device="cpu", progress=False)


def of_their_length(samples: list[Any]) -> torch.Tensor:
    return torch.ones(len(samples), 2 if len(samples) == 1 else 3)


def test_a_batch_size_beside_a_dataloader_and_what_its_collate_fn_gives_are_named():
    given = torch_data.DataLoader(ByIndex(), batch_size=4)
    with pytest.raises(brimful.ConfigError, match="batch_size is 8 and the DataLoader's is 4; leave one out"):
        brimful.map(scaled_sum, given, batch_size=8, device="cpu")
    given = torch_data.DataLoader(ByIndex(), batch_size=4, collate_fn=of_their_length)
    with pytest.raises(InputError, match=r"the DataLoader's collate_fn of_their_length gave .* pad to one length"):
        brimful.map(lambda x: x, given, device="cpu", progress=False)


def test_a_stream_whose_first_items_cannot_be_read_goes_on_and_keeps_its_order():
    found = brimful.map(torch.square, iter([None, 1.0, None, 2.0, 3.0]), device="cpu", progress=False)
    assert found.ok.tolist() == [False, True, False, True, True]
    assert found.values[found.ok].tolist() == [1, 4, 9]


def test_columns_of_lists_and_texts_and_nulls_become_a_table():
    rows = Columnar({"tokens": [[1, 2, 3], [4], []], "text": ["a", "b", "c"], "z": [1.0, None, 3.0]})
    with pytest.warns(brimful.BrimfulWarning, match="left out of the batch: text"):
        dataset = source(rows)
    tokens = dataset.column("tokens")
    assert isinstance(tokens, Ragged) and tokens.lengths.tolist() == [3, 1, 0]
    assert dataset.column("z").isnan().tolist() == [False, True, False]
    assert list(source(rows, columns=["z"]).fields) == ["z"]
    with pytest.raises(InputError, match=r"the source has the splits train, test; give one of them: \['train'\]"):
        source({"train": rows, "test": rows})


def test_series_are_arrays():
    for series in (pd.Series(Y), pl.Series("y", Y)):
        result: Any = brimful.map(torch.square, series, device="cpu", progress=False)
        assert result.values.shape == (N,)


class Samples:
    """A source of one's own, in a module, so that it can be sent."""

    def __len__(self) -> int:
        return N

    def take(self, index: np.ndarray) -> Any:
        return torch.from_numpy(X[index])


def double(number: int) -> torch.Tensor:
    return torch.tensor(2.0 * number)


@pytest.mark.parametrize("form", [*FORMS, "npz", "subset", "decoded", "own"])
def test_sources_survive_pickling(form: str, tmp_path: Path):
    np.savez(tmp_path / "x.npz", x=X)
    others: dict[str, Any] = {
        "npz": tmp_path / "x.npz",
        "subset": Subset((X, Y), np.arange(5)),
        "decoded": Decoded(range(5), double),
        "own": Samples(),
    }
    dataset = source(others[form] if form in others else FORMS[form](tmp_path))
    again = pickle.loads(pickle.dumps(dataset))
    index = np.array([3, 0])
    torch.testing.assert_close(again.take(index), dataset.take(index))
    assert list(again.fields) == list(dataset.fields)


def test_a_dataset_by_index_is_known_by_its_content(tmp_path: Path):
    class Numbers(torch_data.Dataset):
        def __init__(self, values: list[float]) -> None:
            self.values = values

        def __len__(self) -> int:
            return len(self.values)

        def __getitem__(self, index: int) -> float:
            return self.values[index]

    digest = source(Numbers([1.0, 2.0])).fingerprint()
    assert digest == source(Numbers([1.0, 2.0])).fingerprint() != source(Numbers([1.0, 3.0])).fingerprint()
    out = {"out": tmp_path / "run", "device": "cpu", "progress": False}
    assert brimful.map(torch.square, Numbers([1.0, 2.0]), **out).done == 2
    assert brimful.map(torch.square, Numbers([1.0, 2.0]), **out).done == 0
    with pytest.raises(brimful.ChangedError):
        brimful.map(torch.square, Numbers([1.0, 3.0]), **out)


def never(batch: Any) -> Any:
    raise AssertionError("it ran")


class Texts(torch_data.IterableDataset):
    def __iter__(self) -> Iterator[str]:
        return iter("abc")


SPARSE = torch.eye(3).to_sparse()


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (np.array(["a", "b"]), "it holds texts: turn them into numbers"),
        (["a", "b"], "it holds texts"),
        ((text for text in "ab"), "item 0 is a str that cannot become a tensor .it holds texts"),
        (Texts(), "item 0 is a str that cannot become a tensor .it holds texts"),
        (torch.ones(3).to(torch.float8_e5m2), "is of torch.float8_e5m2, which torch can store and not compute with"),
        ([object(), object()], "it holds Python objects"),
        (np.array([object()]), "it holds Python objects"),
        (SPARSE, r"is a torch.sparse_coo tensor; use .to_dense\(\)"),
        (torch.ones(3, device="meta"), "is on the meta device and holds no data"),
        (np.array(["2020-01-01"], "datetime64[D]"), "it holds dates or durations"),
        (np.ma.masked_array([1, 2], mask=[False, True]), "it is masked, and int64 has no NaN: use .filled"),
        ([np.ma.masked_array([1, 2], mask=[False, True])] * 2, "it is masked, and int64 has no NaN: use .filled"),
        (np.zeros(3, [("a", "f4")]), "it holds records: give a dict with one array per field"),
        (pd.DataFrame({"t": ["a", "b"]}), "none of the columns t holds numbers"),
        (STACK(["a", "b"]), "texts"),
    ],
)
def test_what_is_not_supported_is_refused_before_anything_runs(items: Any, words: str):
    with pytest.raises(InputError, match=words):
        brimful.map(never, items, device="cpu", progress=False)


def test_a_nested_tensor_is_refused():
    with pytest.raises(InputError, match=r"is a nested tensor; give a data\.Ragged"):
        brimful.map(never, torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), progress=False)


def test_masked_numbers_are_nan():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    result = brimful.map(lambda x: x.sum(1), masked, device="cpu", progress=False)
    assert result.values.isnan().tolist() == [True, False] and result.ok.tolist() == [False, True]
    found = brimful.map(lambda x: x, list(masked), device="cpu", progress=False, nonfinite="allow").values
    assert found.isnan().tolist() == masked.mask.tolist()
    whole = np.ma.masked_array([1, 2], mask=False)
    assert brimful.map(lambda x: x, whole, device="cpu", progress=False).values.tolist() == [1, 2]


def test_scipy_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InputError, match=r"it is sparse: use .toarray\(\)"):
        brimful.map(never, sparse.eye(3).tocsr(), device="cpu", progress=False)


def numpy_results(batch: torch.Tensor) -> dict[str, Any]:
    return {"sum": batch.numpy().sum(-1), "max": (batch.max(-1).values, np.ones(len(batch), np.int32))}


def test_a_function_may_return_numpy_arrays():
    result: Any = brimful.map(numpy_results, torch.from_numpy(X), device="cpu", progress=False)
    torch.testing.assert_close(result.values["sum"], torch.from_numpy(X.sum(-1)))
    assert result.values["max"][1].dtype == torch.int32


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x: x.to_sparse(), "the function's result is a torch.sparse_coo tensor"),
        (lambda x: x.to(torch.float8_e5m2), "the function's result is of torch.float8_e5m2"),
        (lambda x: np.array(["a"] * len(x)), "the function's result .*it holds texts"),
        (lambda x: x.sum(), "the function returned a single number for .* items; return one row per item"),
        (lambda x: 3, "the function returned an int; it must return a tensor"),
        (lambda x: "text", "the function returned a str; it must return a tensor, a NumPy array"),
    ],
)
def test_a_result_that_is_not_supported_is_refused(fn: Callable[[Any], Any], words: str):
    with pytest.raises(InputError, match=words):
        brimful.map(fn, torch.ones(4, 2), device="cpu", progress=False)


def test_scripted_traced_and_compiled_modules_run_and_resume(tmp_path: Path):
    module = torch.nn.Linear(3, 2)
    expected = module(torch.from_numpy(X)).detach()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of TorchScript
        scripted, traced = torch.jit.script(module), torch.jit.trace(module, torch.ones(2, 3))
    for name, fn in {
        "scripted": scripted,
        "traced": traced,
        "compiled": torch.compile(module, backend="eager"),
    }.items():
        run = {"device": "cpu", "progress": False, "out": tmp_path / name}
        result: Any = brimful.map(fn, X, **run)  # pyright: ignore[reportArgumentType]
        torch.testing.assert_close(result.values, expected)
        assert brimful.map(fn, X, **run).done == 0  # pyright: ignore[reportArgumentType]


class WithBadSamples(torch_data.Dataset):
    """Sample 5 cannot be read, however often one asks, and sample 7 is longer than the others."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 5:
            raise OSError("no such file")
        return torch.full((4 if index == 7 else 3,), float(index))


def number_of(text: str) -> torch.Tensor:
    return torch.tensor(float(text))


class OneMissing(Samples):
    def take(self, index: np.ndarray) -> Any:
        if 3 in index:
            raise OSError("no such file")
        return super().take(index)


BAD_SAMPLES: dict[str, tuple[Any, dict[int, str]]] = {
    "Dataset": (
        WithBadSamples(),
        {
            5: "sample 5 of the WithBadSamples could not be read: OSError: no such file",
            7: r"sample 7 of the WithBadSamples is float32 \(4,\) and others are float32 \(3,\); all must be alike",
        },
    ),
    "decoded": (
        Decoded(["x", "1", "2", "y"], number_of),
        {n: rf"sample {n} \('{t}'\) could not be decoded: ValueError" for n, t in ((0, "x"), (3, "y"))},
    ),
    "own": (OneMissing(), {3: "sample 3 could not be read: OSError: no such file"}),
    "subset": (Subset(WithBadSamples(), [6, 5, 4]), {1: "sample 5 of the WithBadSamples could not be read"}),
}  # fmt: skip


@pytest.mark.parametrize("form", BAD_SAMPLES)
@pytest.mark.parametrize("batch_size", ["auto", 1])
def test_a_sample_that_cannot_be_read_is_one_flagged_item(form: str, batch_size: Any):
    items, reasons = BAD_SAMPLES[form]
    result = brimful.map(lambda x: x.reshape(len(x), -1).sum(1), items, device="cpu", batch_size=batch_size)
    assert np.flatnonzero(~result.ok).tolist() == list(reasons)
    for item, words in reasons.items():
        assert re.search(words, result.messages[item]) and result.status[item] == brimful.Status.FAILED
    assert result.values[result.ok].isfinite().all() and result.values[~result.ok].isnan().all()


@pytest.mark.parametrize("form", sorted(BAD_SAMPLES.keys() - {"own"}))  # whose error is the user's
@pytest.mark.parametrize("tier", ["device", "pinned", "window"])
def test_training_names_the_sample_that_cannot_be_read(form: str, tier: str):
    items, reasons = BAD_SAMPLES[form]
    model = torch.nn.Linear(1, 1)
    with pytest.raises(InputError, match="|".join(reasons.values())):
        brimful.train(model, lambda m, x: m(x.reshape(-1, 1)).mean(), items, epochs=1, batch_size=2, device="cpu",
                      tier=tier)  # fmt: skip


def test_a_dataset_none_of_whose_first_samples_can_be_read_is_refused():
    with pytest.raises(
        InputError, match=r"sample 0 \(None\) could not be decoded: it is a NoneType that cannot become"
    ):
        brimful.map(torch.square, Decoded([None] * 100, lambda item: item), device="cpu")


FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "mixed": (lambda: pd.DataFrame({"a": [1, "x"], "b": [1, 2]}), "column 'a', of object, cannot become .*: Could not"),
    "complex": (lambda: pd.DataFrame({"a": np.ones(2, complex)}), "column 'a', of complex128, cannot become"),
    "long double": (lambda: pd.DataFrame({"a": np.ones(2, np.longdouble)}), "column 'a', of float128, cannot become"),
    "sparse": (lambda: pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1])}), "column 'a', of Sparse.*, cannot become"),
    "the same name": (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns are named 'a'; rename them"),
    "the same name in Arrow": (
        lambda: pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
        "several columns are named 'a'; rename them",
    ),
    "128 bits": (
        lambda: pl.DataFrame({"b": [1], "a": pl.Series([1], dtype=pl.Int128)}),
        "column 'a', of Int128, cannot become a column of an Arrow table",
    ),
    "lazy": (lambda: pl.DataFrame({"a": [1]}).lazy().select("z"), "the lazy frame cannot be computed: ColumnNot"),
    "dates alone": (lambda: pd.DataFrame({"a": pd.date_range("2020", periods=3)}), "none of the columns a holds"),
}  # fmt: skip


@pytest.mark.parametrize("form", FRAMES)
def test_a_frame_that_is_refused_names_its_column(form: str):
    make, words = FRAMES[form]
    with pytest.raises(InputError, match=words):
        brimful.map(never, make(), device="cpu", progress=False)
    with pytest.raises(InputError, match=words):
        weights(make(), batch_size=1)


B = {"b": [1.5, 2.5, 3.5]}
LEFT_OUT: dict[str, Callable[[], Any]] = {
    "dates": lambda: pd.DataFrame({"a": pd.date_range("2020", periods=3), **B}),
    "dates of polars": lambda: pl.DataFrame({"a": [datetime.date(2020, 1, 1)] * 3, **B}),
    "durations": lambda: pd.DataFrame({"a": pd.to_timedelta([1, 2, 3]), **B}),
    "an enumeration": lambda: pl.DataFrame({"a": pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])), **B}),
    "categories": lambda: pd.DataFrame({"a": pd.Categorical(["x", "y", "x"]), **B}),
}  # fmt: skip


@pytest.mark.parametrize("form", LEFT_OUT)
def test_columns_without_numbers_are_left_out_with_a_warning(form: str):
    with pytest.warns(brimful.BrimfulWarning, match="columns that are not numbers are left out of the batch: a$"):
        found: Any = brimful.map(lambda batch: batch, LEFT_OUT[form](), device="cpu", progress=False).values
    assert {name: column.tolist() for name, column in found.items()} == B


TAKEN: dict[str, tuple[Callable[[], Any], Any]] = {
    "big-endian": (lambda: pd.DataFrame({"b": np.array(B["b"], ">f8")}), B),
    "an index of strings": (lambda: pd.DataFrame(B, index=["x", "y", "z"]), B),
    "an index of numbers": (lambda: pd.DataFrame(B, index=[4, 7, 9]), B),
    "an index with a name": (lambda: pd.DataFrame(B, index=pd.Index([4, 7, 9], name="n")), {**B, "n": [4, 7, 9]}),
    "a frame in a dict": (lambda: {"f": pd.DataFrame(B), "y": np.zeros(3)}, {"f": B, "y": [0.0] * 3}),
    "chunks of Arrow": (lambda: pa.chunked_array([[1.5], [2.5, 3.5]]), B["b"]),
    "tensors of Arrow": (
        lambda: pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12.0).reshape(3, 2, 2))}),
        {"t": np.arange(12.0).reshape(3, 2, 2).tolist()},
    ),
}


@pytest.mark.parametrize("form", TAKEN)
def test_what_frames_and_columns_hold_besides_is_read(form: str):
    make, expected = TAKEN[form]
    found: Any = brimful.map(lambda batch: batch, make(), device="cpu", progress=False).values
    if isinstance(expected, dict):
        assert set(found) == set(expected)
    assert plain_values(found) == expected


def plain_values(tree: Any) -> Any:
    return {name: plain_values(part) for name, part in tree.items()} if isinstance(tree, dict) else tree.tolist()
