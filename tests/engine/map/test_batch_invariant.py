"""Functions that give an item the same bits in any batch, and that say themselves what decides their results; results
read part by part."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful import ChangedError
from brimful.core.runs.function_fingerprint import of_function, signature

from .mapping import double, rows, run, same


class Scaled:
    """A function with a setting that changes nothing of its results."""

    def __init__(self, factor: float, hint: int) -> None:
        self.factor, self.hint = factor, hint

    def __fingerprint__(self, exact: bool) -> Any:
        return self.factor if exact else self.hint

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def test_an_object_says_itself_what_decides_its_results():
    assert of_function(Scaled(2.0, 1)) == of_function(Scaled(2.0, 9)) != of_function(Scaled(3.0, 1))
    assert signature(Scaled(2.0, 1)) == signature(Scaled(3.0, 1)) != signature(Scaled(2.0, 9))


def test_the_batch_size_may_change_where_results_do_not_depend_on_it(tmp_path: Path):
    items = rows(40)
    run(double, items, out=tmp_path / "plain", batch_size=7)
    with pytest.raises(ChangedError, match="batch_size"):
        run(double, items, out=tmp_path / "plain", batch_size=9)
    run(double, items, out=tmp_path / "any", batch_size=7, batch_invariant=True)
    result = run(double, items, out=tmp_path / "any", batch_size=9, batch_invariant=True)
    assert result.done == 0 and same(result.values, 2 * items)


def test_values_part_by_part(tmp_path: Path):
    items = rows(40)
    stored, gathered = run(double, items, out=tmp_path / "run", batch_size=9), run(double, items, batch_size=9)
    parts = list(stored.parts())
    assert [len(index) for index, _ in parts] == [9, 9, 9, 9, 4] and len(list(gathered.parts())) == 1
    for result in (stored, gathered):
        index = np.concatenate([index for index, _ in result.parts()])
        values = torch.cat([values for _, values in result.parts()])
        assert index.tolist() == list(range(40)) and same(values, 2 * items)
