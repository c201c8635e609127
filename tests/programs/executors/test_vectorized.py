"""`batt_vectorized` gives what `batt` gives, sample by sample."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brimful import ConfigError, programs
from brimful.programs.execution.encoding import encode
from brimful.programs.language.graph_text import graph_of, graph_values
from brimful.programs.vocabulary.choose import named

from ..helpers.small import TEXT, arc_samples, own_solvers
from ..helpers.words import batt, guarded


def inputs(count: int) -> list[tuple[Any, ...]]:
    return [(sample.task, sample.S, sample.I, sample.C) for sample in arc_samples(count, cells=60)]


def plainly(call: Any, samples: list[tuple[Any, ...]]) -> list[Any]:
    """What single calls give; None where one raises."""
    returned = list[Any]()
    for sample in samples:
        try:
            returned.append(call(*sample))
        except Exception:
            returned.append(None)
    return returned


def same(one: list[Any], other: list[Any]) -> bool:
    def written(returned: Any) -> bytes:
        return encode(None if returned is None else (tuple(returned[0]), tuple(returned[1])))

    return [written(returned) for returned in one] == [written(returned) for returned in other]


def test_it_agrees_with_single_calls():
    compiled = programs.compile(programs.loads(programs.generate(60, seed=3, programs=own_solvers()) + TEXT))
    samples = [*inputs(18), ("blank", (), ((0, 0),), ()), ("blank", (), ((0,),), ())]
    results, ok = compiled.batt_vectorized(samples, "cpu", batch_size=8)
    assert same(results, plainly(compiled.batt, samples))
    assert ok.shape == (20, sum(len(of.outputs) for of in compiled.graph.programs)) and ok.any() and not ok.all()


def test_a_sample_on_which_something_escapes_has_none():
    lines = guarded("t1", "divide(TEN, t0)", "divide", "KeyError")
    text = batt("t0 = subtract(height(I), THREE)", *lines, "o.append((1, t1))", "s.append((2, t0))")
    compiled = programs.compile(programs.loads(text))
    samples = [("a", (), ((1,),) * rows, ()) for rows in (1, 3, 5)]
    results, ok = compiled.batt_vectorized(samples, "cpu")
    assert results == plainly(compiled.batt, samples) and results[1] is None
    assert ok.tolist() == [[True], [False], [True]]


def test_functions_and_texts_in_records():
    text = batt("t1 = rbind(add, ONE)", "t2 = t1(TWO)", "o.append((1, 'x', t1, t2))", "s.append((add, None))")
    compiled = programs.compile(programs.loads(text))
    samples = inputs(2)
    assert same(compiled.batt_vectorized(samples, "cpu")[0], plainly(compiled.batt, samples))


def test_the_emitted_module_has_it(tmp_path: Path):
    path = programs.compile(programs.loads(TEXT)).save(tmp_path)
    module = runpy.run_path(str(path))
    results, ok = module["batt_vectorized"](inputs(3), "cpu")
    assert same(results, plainly(module["batt"], inputs(3))) and ok.dtype == np.bool_
    assert module["batt_vectorized"]([], "cpu")[0] == []


def test_an_operation_may_not_have_its_name():
    with pytest.raises(ConfigError, match="an operation named 'batt_vectorized'"):
        programs.operation(name="batt_vectorized")(lambda grid: grid)


def test_a_graph_survives_the_way_through_values():
    graph = own_solvers().merge()
    again = graph_of(named("arc-dsl"), *graph_values(graph))
    assert graph_values(again) == graph_values(graph) and again.levels == graph.levels
    assert [set(of.steps) for of in again.programs] == [set(of.steps) for of in graph.programs]
