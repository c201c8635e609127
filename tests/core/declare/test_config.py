"""Options declared once: checked, shown as a schema, and the same after a trip through JSON."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import ConfigError
from brimful.core.declare.config import DeviceOptions, build, describe, option, schema, to_dict, topics

from ...helpers.madeup import Fit, Predict

fits = st.builds(
    Fit,
    points=st.integers(1, 1000),
    rate=st.floats(0, 1, exclude_min=True, exclude_max=True),
    kernel=st.sampled_from(["rbf", "matern"]),
    train_kernel_size=st.integers(1),
    fused=st.booleans(),
    limit=st.none() | st.integers(1),
    data=st.none() | st.sampled_from([Path("a/b.csv"), Path("/x"), Path()]),
    seed=st.integers(0),
    device=st.sampled_from(["auto", "cpu", "cuda:0,cuda:1"]),
    budget=st.none() | st.sampled_from(["8GB", "80%", "1000000"]),
    out=st.none() | st.just(Path("out")),
)


@given(fits)
def test_a_config_is_the_same_after_json(config: Fit):
    assert build(Fit, json.loads(json.dumps(to_dict(config)))) == config


@given(fits)
def test_a_config_is_the_same_after_being_typed_as_text(config: Fit):
    typed = {name: str(value) for name, value in to_dict(config).items() if value is not None}
    assert build(Fit, typed) == config


def test_a_number_that_may_be_none_is_typed_as_none():
    @dataclass(frozen=True, kw_only=True)
    class Clipped:
        grad_clip: float | None = 1.0
        name: str | None = "a"
        steps: int = 3

    assert build(Clipped, {"grad_clip": "none", "name": "none"}) == Clipped(grad_clip=None, name="none")
    assert [info.name for info in describe(Clipped) if info.can_be_off] == ["grad_clip"]
    with pytest.raises(ConfigError, match="steps is 'none'; it must be a whole number"):
        build(Clipped, {"steps": "none"})


def test_what_is_not_said_keeps_its_default():
    assert build(Fit, {}) == Fit()
    assert build(Predict, {"model": "m"}) == Predict(model=Path("m"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"points": 0}, "points is 0; it must be at least 1"),
        ({"points": 1001}, "points is 1001; it must be at most 1000"),
        ({"points": "many"}, "points is 'many'; it must be a whole number"),
        ({"points": 2.5}, "points is 2.5; it must be a whole number"),
        ({"points": "2.0"}, "points is '2.0'; it must be a whole number"),
        ({"points": True}, "points is True; it must be a whole number"),
        ({"points": None}, "points is None; it must be a whole number"),
        ({"points": [3]}, "points is [3]; it must be a whole number"),
        ({"points": math.inf}, "points is inf; it must be a whole number"),
        ({"rate": 0}, "rate is 0.0; it must be above 0"),
        ({"rate": 1}, "rate is 1.0; it must be below 1"),
        ({"rate": "nan"}, "rate is nan; it must be a number"),
        ({"rate": "x"}, "rate is 'x'; it must be a number"),
        ({"rate": 10**400}, "it must be a number"),
        ({"kernel": "cubic"}, "kernel is 'cubic'; choose one of rbf, matern"),
        ({"kernel": ["rbf"]}, "kernel is ['rbf']; it must be a text"),
        ({"device": {"a": 1}}, "device is {'a': 1}; it must be a text"),
        ({"device": False}, "device is False; it must be a text"),
        ({"fused": "maybe"}, "fused is 'maybe'; it must be true or false"),
        ({"fused": 2}, "fused is 2; it must be true or false"),
        ({"data": 7}, "data is 7; it must be a path"),
        ({"limit": 0}, "limit is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"budget": "lots"}, "budget 'lots' is not an amount of memory"),
        ({"budget": "0"}, "the least is 1MB"),
        ({"size": 3}, "unknown option 'size'; there are points, rate, kernel"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(values: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as caught:
        build(Fit, values)
    assert message in str(caught.value)


def test_a_missing_required_option_says_what_it_is_for():
    with pytest.raises(ConfigError, match="model is missing: a fitted model"):
        build(Predict, {})


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("YES", True), ("False", False), ("0", False), ("no", False)]
)
def test_truth_may_be_written_many_ways(text: str, value: bool):
    assert build(Fit, {"fused": text}).fused is value


def test_numbers_are_taken_where_they_lose_nothing():
    built = build(Fit, {"points": 3.0, "rate": "1e-3", "budget": 8_000_000_000})
    assert (built.points, built.rate, built.budget) == (3, 0.001, "8000000000")
    assert isinstance(built.points, int)


def test_the_common_options_come_last():
    names = [info.name for info in describe(Fit)]
    assert names[:3] == ["points", "rate", "kernel"]
    assert names[-4:] == ["seed", "device", "budget", "out"]


@dataclass(frozen=True, kw_only=True)
class Aliased(DeviceOptions):
    steps: int = option(100, help="steps of the optimizer", ge=1, aliases=("niters", "n_iter"))


def test_an_alias_is_the_option_under_another_name():
    assert build(Aliased, {"niters": "7"}) == Aliased(steps=7)
    assert list(schema(Aliased)["properties"]) == ["steps", "device", "budget"]
    with pytest.raises(ConfigError, match="steps is 0; it must be at least 1"):
        build(Aliased, {"n_iter": 0})
    with pytest.raises(ConfigError, match="niters is given twice, under two spellings"):
        build(Aliased, {"niters": 7, "steps": 7})


def test_a_slip_is_answered_by_the_nearest_name():
    with pytest.raises(ConfigError, match="unknown option 'stesp'; did you mean 'steps'"):
        build(Aliased, {"stesp": 7})


def test_a_type_that_is_no_option_is_the_programmers_mistake():
    @dataclass(frozen=True, kw_only=True)
    class Wrong(DeviceOptions):
        sizes: list = option(None, help="several")

    with pytest.raises(TypeError, match=r"Wrong\.sizes"):
        describe(Wrong)


def valid(entry: dict[str, Any], value: Any) -> bool:
    """What a JSON schema validator would say of one property."""
    kinds = entry["type"] if isinstance(entry["type"], list) else [entry["type"]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "integer": number and float(value).is_integer(),
        "number": number,
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
    }
    if not any(fits[kind] for kind in kinds):
        return False
    if "enum" in entry and value not in entry["enum"]:
        return False
    if not number:
        return True
    return (
        value >= entry.get("minimum", -math.inf)
        and value <= entry.get("maximum", math.inf)
        and value > entry.get("exclusiveMinimum", -math.inf)
        and value < entry.get("exclusiveMaximum", math.inf)
    )


def accepted(name: str, value: Any) -> bool:
    try:
        build(Fit, {name: value})
        return True
    except ConfigError:
        return False


numbers = st.integers(-5, 1005) | st.floats(-2, 2) | st.sampled_from([0, 1, 1000, 0.0, 1.0, 3.0, 2.5])
anything = numbers | st.none() | st.booleans() | st.sampled_from(["rbf", "matern", "x", "", "auto"]) | st.just([1])


@given(st.sampled_from(["points", "rate", "train_kernel_size", "limit", "seed"]), numbers | st.none() | st.booleans())
def test_the_schema_and_the_checks_agree_on_numbers(name: str, value: Any):
    assert accepted(name, value) == valid(schema(Fit)["properties"][name], value)


@given(st.sampled_from([info.name for info in describe(Fit) if info.name != "budget"]), anything)
def test_what_the_schema_allows_is_accepted(name: str, value: Any):
    if valid(schema(Fit)["properties"][name], value):
        assert accepted(name, value)


@pytest.mark.parametrize("config", [DeviceOptions, Fit, Predict])
def test_a_schema_is_json_and_its_defaults_keep_to_it(config: type):
    made = json.loads(json.dumps(schema(config)))
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert made["type"] == "object"
    assert made["additionalProperties"] is False
    assert list(made["properties"]) == [info.name for info in describe(config)]
    for name, entry in made["properties"].items():
        assert entry["description"]
        assert ("default" in entry) != (name in made["required"])
        assert "default" not in entry or valid(entry, entry["default"])


def test_the_schema_of_each_kind_of_option():
    properties = schema(Fit)["properties"]
    assert properties["points"] == {
        "type": "integer",
        "description": "points per task",
        "minimum": 1,
        "maximum": 1000,
        "default": 40,
    }
    assert (properties["rate"]["exclusiveMinimum"], properties["rate"]["exclusiveMaximum"]) == (0, 1)
    assert properties["kernel"]["enum"] == ["rbf", "matern"]
    assert properties["limit"]["type"] == ["integer", "null"]
    assert properties["data"]["type"] == ["string", "null"]
    assert schema(Predict)["required"] == ["model"]


def test_options_are_in_the_order_of_their_topics():
    @dataclass(frozen=True, kw_only=True)
    class KernelOptions:
        rate: float = option(0.1, help="")
        steps: int = option(3, help="")

    KernelOptions.__module__ = "elsewhere.options"

    @dataclass(frozen=True, kw_only=True)
    class NoiseOptions:
        scale: float = option(1.0, help="")

    @dataclass(frozen=True, kw_only=True)
    class Config(KernelOptions, NoiseOptions, DeviceOptions):
        steps: int = 5  # another default, and the same topic
        points: int = option(3, help="")

    topics_of = list(topics(Config).items())
    assert topics_of[:2] == [("points", ""), ("scale", "Noise")]  # the command's own, then of its own package
    assert set(topics_of[2:4]) == {("rate", "Kernel"), ("steps", "Kernel")}
    assert topics_of[4:] == [("device", "Device and seed"), ("budget", "Device and seed")]
