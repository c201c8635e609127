"""Rows of a table are grouped by task, in whatever order they come."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import BrimfulWarning, InputError
from brimful.gp.data import duplicates
from brimful.gp.data.grouping import group_rows

CATEGORIES = pa.dictionary(pa.int8(), pa.string())
KINDS = (pa.int64(), pa.uint8(), pa.string(), pa.large_string(), pa.float64(), pa.date32(), CATEGORIES)


@given(names=st.lists(st.integers(0, 5), min_size=1, max_size=60), kind=st.sampled_from(KINDS), ordered=st.booleans())
def test_every_row_goes_to_its_task_in_the_order_they_came(names: list[int], kind: pa.DataType, ordered: bool):
    names = sorted(names) if ordered else names
    text = pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    values = [str(name) for name in names] if text else names
    key = pa.array(values, pa.int32()).cast(kind) if pa.types.is_date(kind) else pa.array(values, kind)
    grouped = group_rows(key, "task")
    expected = list(dict.fromkeys(key.to_pylist()))
    assert grouped.ids.to_pylist() == expected
    rows = [row for name in expected for row, value in enumerate(key.to_pylist()) if value == name]
    assert grouped.arranged(np.arange(len(names))).tolist() == rows
    assert grouped.counts.tolist() == [key.to_pylist().count(name) for name in expected]
    assert grouped.order is None or len(set(names)) > 1


def test_names_that_are_lists_are_refused():
    with pytest.raises(InputError, match="tasks are named by texts or whole numbers"):
        group_rows(pa.array([[1], [2]]), "task")


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=30), data=st.data(), ordered=st.booleans())
def test_repeated_rows_are_counted_whatever_the_blocks(counts: list[int], data: st.DataObject, ordered: bool):
    total = sum(counts)
    values = data.draw(st.lists(st.integers(0, 3), min_size=total, max_size=total))
    x, y = np.array(values, float)[:, None], np.array(values[::-1], float)
    task = np.repeat(np.arange(len(counts)), counts)
    if ordered:
        x[:, 0] = np.arange(total)
    seen = [tuple(row) for row in np.column_stack([task, x, y])]
    repeated = total - len(set(seen))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_BLOCK", 8)
        if repeated:
            with pytest.warns(BrimfulWarning, match=f"^{repeated} rows? in "):
                duplicates.check_rows(np.array(counts), x, y, pa.array(np.arange(len(counts))))
        else:
            duplicates.check_rows(np.array(counts), x, y, pa.array(np.arange(len(counts))))
