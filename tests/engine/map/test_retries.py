"""`retries=`: errors that pass, and items that keep failing."""

from typing import Any

import numpy as np
import pytest
import torch

from brimful import ConfigError, Status

from .mapping import rows, run, same, stamped


class Flaky:
    """Raises in every so-manieth call, and always for one item; changes what it is given."""

    def __init__(self, every: int, bad: int | None = None) -> None:
        self.calls, self.every, self.bad = 0, every, bad

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        result = stamped(x) + torch.rand(len(x), 1)
        hit = self.bad is not None and bool((x[:, 0] == self.bad).any())
        x.zero_()
        if hit:
            raise ValueError("never")
        if self.calls % self.every == 0:
            raise ConnectionError("reset")
        return result

    def __fingerprint__(self, exact: bool) -> Any:
        return "flaky"


def test_an_error_that_passes_leaves_no_trace():
    options: dict[str, Any] = {"batch_size": 10, "device": "cpu"}
    result = run(flaky := Flaky(3), rows(100), retries=1, **options)
    assert result.ok.all()
    assert flaky.calls == 14
    assert same(result.values, run(Flaky(1 << 30), rows(100), **options).values)


def test_an_item_that_keeps_failing_is_flagged_and_its_neighbors_keep_their_bits():
    options: dict[str, Any] = {"batch_size": 10, "device": "cpu"}
    result = run(Flaky(7, bad=42), rows(100), retries=2, **options)
    assert np.flatnonzero(result.status).tolist() == [42]
    assert result.status[42] == Status.FAILED
    assert result.messages == {42: "ValueError: never (tried 3 times)"}
    good = np.arange(100) != 42
    assert same(result.values[good], run(Flaky(1 << 30), rows(100), **options).values[good])


def test_a_function_that_never_works_is_called_so_often_and_raises():
    function = Flaky(1)
    with pytest.raises(ConnectionError, match="reset"):
        run(function, rows(8), batch_size=8, retries=3, device="cpu")
    assert function.calls == 4 * (1 + 8)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "2"])
def test_what_is_no_number_of_retries(wrong: Any):
    with pytest.raises(ConfigError, match="retries is"):
        run(stamped, rows(4), retries=wrong)
