"""Operations and function values over all rows."""

from brimful.programs.batched.machine import Machine
from brimful.programs.execution.failures import Category
from brimful.programs.language.operation import declared
from brimful.programs.vocabulary.arc import ARC
from tests.programs.batched.helpers import DEVICE, check, function


def call(called, argument):
    return called(argument)


def test_what_only_functions_close_over_has_a_row_for_every_sample():
    objects = [frozenset({frozenset({(1, (0, n))}) for n in range(count)}) for count in range(4)]
    count = function("compose", function("size"), function("lbind", function("sfilter"), objects))
    step = Machine(DEVICE, ARC["equality"]).operation(declared(call), [count, function("vline")])
    check(step, [(Category.NONE, count) for count in range(4)])
