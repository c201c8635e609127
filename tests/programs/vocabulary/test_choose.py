"""Which vocabulary a source is read in."""

import pytest

from brimful import ConfigError, programs

from ..helpers.words import batt, solver


def vocabulary(text: str, chosen: str = "auto") -> str:
    return programs.loads(text, chosen).sources[0].vocabulary


def test_the_imports_decide_and_then_the_names():
    plain = solver("x = vmirror(I)", "x")
    assert vocabulary(plain) == "arc-dsl"
    assert vocabulary("from dsl import *\nfrom constants import *\n" + plain) == "arc-dsl"
    assert vocabulary(batt("t1 = canvas(ONE, UNITY)", "o.append((1, t1))")) == "arc-dsl"
    for header in ("from pile import *", "from safe_dsl import _get_safe_default", "import gpu_env", "import batt_gpu"):
        assert vocabulary(f"{header}\n{solver('x = canvas(ONE, UNITY)', 'x')}") == "batt"
    assert vocabulary(batt("t1 = o_g(I, R5)", "o.append((1, t1))")) == "batt"


def test_one_may_be_named():
    text = solver("x = canvas(ONE, UNITY)", "x")
    assert vocabulary(text, "batt") == "batt" and vocabulary(text, "arc-dsl") == "arc-dsl"
    with pytest.raises(ConfigError, match="vocabulary is 'other'; choose one of arc-dsl, batt, or auto"):
        programs.loads(text, "other")
    with pytest.raises(programs.ProgramError, match=r"o_g: unknown name.*vocabulary arc-dsl"):
        programs.loads(batt("t1 = o_g(I, R5)", "o.append((1, t1))"), "arc-dsl")


def test_programs_of_two_vocabularies_are_compiled_apart():
    both = programs.loads(solver("x = vmirror(I)", "x", name="a")) + programs.loads(
        solver("x = canvas(ONE, UNITY)", "x", name="b"), "batt"
    )
    with pytest.raises(ConfigError, match="written in arc-dsl and batt; compile them apart"):
        programs.compile(both)
