"""Small fits for the tests: on the CPU, silent."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from brimful import gp


def fit(x: Any, y: Any = None, **options: Any) -> gp.Fit:
    settings: dict[str, Any] = {"device": "cpu", "progress": False, **options}
    return gp.fit(x, y, **settings)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Autograd on small matrices is slower on several threads, and much slower beside other processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rows(seed: int, tasks: int, points: int, dimensions: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of their own, (tasks, points, dimensions), and waves in noise over them."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 3, (tasks, points, dimensions))
    speed, phase = generator.uniform(0.5, 3, (tasks, 1, dimensions)), generator.uniform(0, 6, (tasks, 1))
    noise = 10 ** generator.uniform(-2, -0.3, (tasks, 1))
    return x, np.sin((speed * x).sum(2) + phase) + noise * generator.normal(size=(tasks, points))


def long(x: np.ndarray, y: np.ndarray, ids: list[Any]) -> dict[str, Any]:
    """The columns of a long table."""
    points, dimensions = x.shape[1:]
    columns: dict[str, Any] = {"unique_id": [value for value in ids for _ in range(points)]}
    names = ["ds"] if dimensions == 1 else [f"x_{position}" for position in range(dimensions)]
    columns |= {name: x[:, :, position].reshape(-1) for position, name in enumerate(names)}
    return columns | {"y": y.reshape(-1)}


def same(one: gp.Fit, other: gp.Fit, rtol: float = 0.0) -> None:
    """Two fits have the same parameters, likelihoods and states."""
    assert one.status.tolist() == other.status.tolist()
    assert one.params.keys() == other.params.keys()
    for name, values in one.params.items():
        np.testing.assert_allclose(values, other.params[name], rtol=rtol, atol=1e-300, err_msg=name)
    np.testing.assert_allclose(one.nlml, other.nlml, rtol=rtol, atol=rtol)


def equal_tables(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables hold the same, a NaN being like another."""
    return one.schema == other.schema and all(
        np.array_equal(
            one[name].to_numpy(), other[name].to_numpy(), equal_nan=one[name].type in (pa.float32(), pa.float64())
        )
        for name in one.column_names
    )
