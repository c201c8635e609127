"""Repeated rows and shared names are reported."""

import numpy as np
import pyarrow as pa
import pytest

from brimful import BrimfulWarning, InputError, gp

from ..helpers.small import fit, long, rows

X, Y = rows(3, 4, 8)


def test_repeated_rows_of_a_long_table_are_reported():
    table = pa.table(long(X, Y, list("abcd")))
    with pytest.warns(BrimfulWarning, match=r"3 rows in 2 tasks repeat .* the first of them in task 'b'; they count"):
        fitted = fit(pa.concat_tables([table, table.slice(8, 2), table.slice(24, 1)]))
    assert fitted.columns["points"].tolist() == [8, 10, 8, 9]


def test_a_second_measurement_and_a_missing_one_are_no_repetition():
    again = {"unique_id": ["a", "a", "a"], "ds": [X[0, 0, 0]] * 3, "y": [Y[0, 0] + 1, None, None]}
    fitted = fit(pa.concat_tables([pa.table(long(X, Y, list("abcd"))), pa.table(again)]))
    assert fitted.columns["points"].tolist() == [9, 8, 8, 8]


@pytest.mark.parametrize("ids", [["a", "b", "a", "c"], np.array([7, 1, 2, 7])])
def test_tasks_that_share_a_name_are_refused(ids: list[str] | np.ndarray):
    with pytest.raises(InputError, match=r"task_ids has ('a'|7) for tasks 0 and [23]; give every task a name"):
        gp.fit(X, Y, task_ids=ids, progress=False)
