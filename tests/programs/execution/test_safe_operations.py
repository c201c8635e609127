"""Safe operations yield their default for whatever they raise, also where a program lists exceptions."""

from brimful import programs
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.sequential import Sequential

SOURCE = """
from safe_dsl import _get_safe_default

def batt(task_id, S, I, C, log_path):
    s = []
    o = []
    try:
        t1 = hsplit(I, ZERO)
    except (TypeError, AttributeError):
        t1 = _get_safe_default(hsplit)
    t2 = EIGHT(TWO)
    o.append((1, False, 'x', t1))
    o.append((2, False, 'y', t2))
    return o, s
"""


def test_exceptions_that_a_program_does_not_list_give_the_default_too():
    loaded = programs.loads(SOURCE)
    executor = Sequential(loaded.merge())
    evaluation = executor.evaluate(Arguments("t", (), ((1,),), ()))
    outputs, scores = executor.result(evaluation, executor.graph.programs[0])
    assert [record[-1] for record in outputs] == [(), ()]
    assert scores == []
    assert programs.compile(loaded).batt("t", (), ((1,),), ()) == (outputs, scores)


def test_calling_a_number_is_a_step_that_always_fails():
    loaded = programs.loads(SOURCE)
    assert [(note.line, note.fatal) for note in loaded.notes] == [(11, False)]
