"""Datasets: their parts are disjoint, and reading a file runs nothing that is in it."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import ConfigError, InputError
from brimful.wpo import DataSplits, dataset, toy
from brimful.wpo.data import cifar
from brimful.wpo.data.toys import TOYS

from ..helpers.cifar_files import write_batches


@pytest.mark.parametrize("name", TOYS)
def test_toys_are_sampled(name: str):
    points = toy(name, 4000, seed=1)
    assert points.shape == (4000, 6 if name == "swissroll6d" else 2)
    assert points.dtype == np.float32 and np.isfinite(points).all()
    np.testing.assert_array_equal(points, toy(name, 4000, seed=1))
    assert not np.array_equal(points, toy(name, 4000, seed=2))
    assert np.abs(points).max() < 8 and (points.std(0) > 0.1).all()
    assert len(np.unique(points, axis=0)) == 4000


def test_toys_have_their_shapes():
    angle = np.arctan2(*toy("8gaussians", 4000).T)
    assert (np.abs((angle + np.pi / 8) % (np.pi / 4) - np.pi / 8) < 0.3).mean() > 0.95
    radius = np.linalg.norm(toy("8gaussians", 4000), axis=1)
    assert abs(radius.mean() - 4 / 1.414) < 0.05
    field = np.floor(toy("checkerboard", 4000) / 2).astype(int)
    assert set(map(tuple, field.tolist())) == {(x, y) for x in range(-2, 2) for y in range(-2, 2) if (x + y) % 2 == 0}
    rings = np.linalg.norm(toy("rings", 4000), axis=1)
    assert min(abs(rings[:, None] - 3 * np.array([0.25, 0.5, 0.75, 1])).min(1) < 0.9)
    roll = toy("swissroll6d", 2000).astype(float)
    assert (np.linalg.svd(roll - roll.mean(0), compute_uv=False)[2:] / 2000**0.5 < 0.06).all()
    with pytest.raises(ConfigError, match="there is no toy distribution 'square'; there are swissroll, 8gaussians"):
        toy("square", 3)


def rows_of(data: DataSplits) -> list[set[bytes]]:
    return [{row.tobytes() for row in part.numpy()} for part in (data.train_Nd, data.held_out_Md, data.centers_Kd)]


def is_disjoint(data: DataSplits) -> bool:
    sets = rows_of(data)
    return len(set.union(*sets)) == sum(map(len, sets))


@settings(max_examples=20)
@given(st.integers(4, 60), st.integers(1, 20), st.floats(0.05, 0.6), st.integers(0, 9), st.integers(2, 9))
def test_parts_never_overlap_whatever_repeats(n: int, K: int, share: float, seed: int, values: int):
    rng = np.random.default_rng(seed)
    rows = rng.integers(values, size=(n, 2)).astype(np.float64)  # many are equal
    rows[0] = -0.0
    different = len(np.unique(rows, axis=0))
    held = max(1, round(share * different))
    if different - held - K < 1:
        with pytest.raises(InputError, match="too few"):
            dataset(rows, K, held_out=share, seed=seed)
        return
    data = dataset(rows, K, held_out=share, seed=seed)
    assert is_disjoint(data)
    assert (len(data.centers_Kd), len(data.held_out_Md)) == (K, held)
    assert len(data.train_Nd) + held + K == different == n - data.duplicates


@pytest.mark.parametrize("name", ["8gaussians", "digits"])
def test_named_data_is_disjoint_too(name: str):
    data = dataset(name, 50, samples=500)
    assert is_disjoint(data) and len(data.centers_Kd) == 50
    again = dataset(name, 50, samples=500)
    assert torch.equal(data.train_Nd, again.train_Nd) and not torch.equal(
        data.train_Nd, dataset(name, 50, samples=500, seed=1).train_Nd
    )
    if name == "digits":
        assert data.image_shape == (1, 8, 8) and data.centers_Kd.shape[1] == 64
        whole = torch.cat((data.train_Nd, data.held_out_Md, data.centers_Kd))
        assert len(whole) + data.duplicates == 1797 and float(whole.min()) >= 0 and float(whole.max()) < 1
        assert len(dataset(name).centers_Kd) == (1797 - data.duplicates) // 3


def test_arrays_from_files(tmp_path: Path):
    images = np.random.default_rng(0).integers(255, size=(30, 2, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", images)
    data = dataset(tmp_path / "a.npy", 5)
    assert data.centers_Kd.shape[1] == 6 and data.name == "a" and is_disjoint(data)
    found = {
        tuple(row) for row in np.floor(torch.cat((data.train_Nd, data.held_out_Md, data.centers_Kd)).numpy()).tolist()
    }
    assert found == {tuple(row) for row in images.reshape(30, 6).astype(float).tolist()}
    np.save(tmp_path / "b.npy", np.array([[1.0, np.nan], [0, 0]]))
    with pytest.raises(InputError, match="the first is row 0"):
        dataset(str(tmp_path / "b.npy"))
    np.save(tmp_path / "c.npy", np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="not an array that numpy"):
        dataset(tmp_path / "c.npy")
    np.savez(tmp_path / "d.npz", a=np.zeros(3))
    (tmp_path / "d.npz").rename(tmp_path / "d.npy")
    with pytest.raises(InputError, match="several arrays"):
        dataset(tmp_path / "d.npy")
    with pytest.raises(InputError, match="there is no data 'nothing': give swissroll"):
        dataset("nothing")
    for centers, held_out in ((None, 1.0), (0, 0.1)):
        with pytest.raises(ConfigError):
            dataset("moons", centers, held_out=held_out)


def test_cifar_is_read_from_its_own_format(tmp_path: Path):
    with pytest.raises(InputError, match=r"data_batch_1 is missing. Fetch cifar-10-python.tar.gz"):
        dataset("cifar10", folder=tmp_path)
    images = write_batches(tmp_path / cifar.FOLDER)
    train, test = cifar.read(tmp_path)
    np.testing.assert_array_equal(train, images[:100])
    np.testing.assert_array_equal(cifar.read(tmp_path / cifar.FOLDER)[1], test)
    data = dataset("cifar10", 10, folder=tmp_path)
    assert (len(data.train_Nd), len(data.held_out_Md), len(data.centers_Kd)) == (90, 20, 10)
    assert data.image_shape == (3, 32, 32) and is_disjoint(data)
    np.testing.assert_array_equal(np.floor(data.held_out_Md.numpy() * 256), images[100:])


class Evil:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


def touch(path: str) -> None:
    Path(path).touch()


def test_a_file_that_wants_something_run_is_refused(tmp_path: Path):
    import os
    import subprocess

    target = tmp_path / "touched"
    bodies = [
        {b"data": Evil(os.system, f"touch {target}")},
        {b"data": Evil(subprocess.call, ["touch", str(target)])},
        {b"data": Evil(eval, f"open({str(target)!r}, 'w')")},
        {b"data": Evil(touch, str(target))},
        {b"data": np.array([Evil(touch, str(target))], dtype=object)},
    ]
    for protocol in (2, 4):
        for body in bodies:
            (tmp_path / "batch").write_bytes(pickle.dumps(body, protocol=protocol))
            with pytest.raises(InputError, match="was not run"):
                cifar.read_batch(tmp_path / "batch")
    assert not target.exists()


def test_files_that_are_something_else(tmp_path: Path):
    path = tmp_path / "batch"
    for content in (
        b"",
        b"no pickle",
        pickle.dumps([1, 2], protocol=2),
        pickle.dumps({b"data": b"bytes"}, protocol=2),
        pickle.dumps({b"data": np.zeros((2, 3), np.uint8)}, protocol=2),
        pickle.dumps({b"data": np.zeros((2, 3072))}, protocol=2),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}, protocol=2)[:-20],
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"etch it again"):
            cifar.read_batch(path)


def test_a_file_of_texts_or_of_rubbish_is_refused_with_a_sentence(tmp_path: Path):
    np.save(tmp_path / "texts.npy", np.array(["a", "b"]))
    with pytest.raises(InputError, match="cannot be read as numbers"):
        dataset(tmp_path / "texts.npy")
    (tmp_path / "junk.npy").write_bytes(b"junk" * 10)
    with pytest.raises(
        InputError, match=r"is not an array that numpy\.save wrote: [^.]*; save it with numpy\.save, as numbers$"
    ):
        dataset(tmp_path / "junk.npy")


def test_a_file_in_another_byte_order_holds_the_same_rows(tmp_path: Path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    for name, dtype in (("big", ">f8"), ("little", "<f8")):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", rows.astype(dtype))
    big, little = (dataset(tmp_path / name / "x.npy") for name in ("big", "little"))
    assert torch.equal(big.train_Nd, little.train_Nd)
    assert torch.equal(big.centers_Kd, little.centers_Kd)


def test_tables_are_rows_and_lists_of_numbers_are_as_many_columns(tmp_path: Path):
    rows = np.random.default_rng(0).random((30, 3))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows[:, 1:].reshape(-1)), 2)
    pq.write_table(pa.table({"a": rows[:, 0], "b": lists}), tmp_path / "x.parquet")
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",", header="a,b,c", comments="")
    np.save(tmp_path / "x.npy", rows)
    parts = [dataset(tmp_path / f"x.{ending}", 5).centers_Kd for ending in ("npy", "parquet", "csv")]
    assert torch.equal(parts[0], parts[1]) and torch.allclose(parts[0], parts[2])
    (tmp_path / "no.parquet").write_text("no table")
    with pytest.raises(InputError, match="cannot be read as a table"):
        dataset(tmp_path / "no.parquet", 5)
    pq.write_table(pa.table({"a": ["x", "y"]}), tmp_path / "texts.parquet")
    with pytest.raises(InputError, match="column 'a' holds no numbers"):
        dataset(tmp_path / "texts.parquet", 1)
