"""The examples of README and docs: Python runs, and commands are ones that the command line has."""

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
import typer.main

from brimful.cli.app import app

from .helpers.page_examples import EXAMPLES
from .helpers.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMES = {path: str(path.relative_to(ROOT)) for path in PAGES}
COMPLETE = ("docs/distributed.md", "docs/getting-started.md", "docs/how-to/")


def tensors(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def given(page: str) -> dict[str, Any]:
    """What the examples of a page speak of and do not make themselves, small."""
    import brimful
    from brimful import gp

    common: dict[str, Any] = {"torch": torch, "np": np, "brimful": brimful, "gp": gp}
    if page == "README.md":
        labels = torch.arange(60) % 3
        return common | {
            "matrices": torch.eye(4).expand(50, 4, 4).clone(),
            "model": torch.nn.Linear(5, 3),
            "x": tensors(60, 5),
            "y": labels,
            "xv": tensors(20, 5),
            "yv": labels[:20],
            "components": tensors(30, 5),
        }
    return common


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def examples(path: Path) -> list[str]:
    return PYTHON.findall(path.read_text())


@pytest.mark.parametrize("path", [path for path in PAGES if examples(path)], ids=NAMES.get)
def test_python_examples_are_python(path: Path):
    for position, source in enumerate(examples(path)):
        compile(source, f"{NAMES[path]}[{position}]", "exec")


@pytest.mark.usefixtures("rendered_pictures")
def test_the_first_result_of_the_readme_is_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with inside(tmp_path):
        exec(examples(ROOT / "README.md")[0], {})
    shown = capsys.readouterr().out
    said = next(line.strip() for line in (ROOT / "README.md").read_text().splitlines() if "processes (rbf)" in line)
    assert shown.split(", ")[:3] == said.split(", ")[:3]  # the rest is time and memory
    assert (tmp_path / "pictures" / "gp.png").exists()


def test_the_verbs_of_the_readme_run(tmp_path: Path):
    names = given("README.md")
    with inside(tmp_path):
        for source in examples(ROOT / "README.md")[1:]:
            exec(source.replace('budget="8GB"', 'budget="1GB", device="cpu", progress=False'), names)
    assert names["result"].epochs > 0 and names["mean"].shape == (60, 5)


COMPLETE_PAGES = [path for path in PAGES if NAMES[path].startswith(COMPLETE) and examples(path)]


@pytest.mark.parametrize("path", COMPLETE_PAGES, ids=NAMES.get)
def test_complete_examples_run(path: Path, tmp_path: Path):
    with inside(tmp_path):
        for source in examples(path):
            exec(source, {"__name__": "example"})


@pytest.mark.parametrize("page", sorted(EXAMPLES))
def test_examples_of_the_guides_run(page: str, tmp_path: Path):
    how, names = EXAMPLES[page], {"__name__": "example", **EXAMPLES[page].given()}
    sources = examples(ROOT / page)
    assert all(any(text in source for source in sources) for text in how.smaller), "the page says it otherwise now"
    with inside(tmp_path):
        if how.files is not None:
            how.files()
        for position, source in enumerate(sources):
            for text, smaller in how.smaller.items():
                source = source.replace(text, smaller)
            if position not in how.left_out:
                exec(source, names)


def test_every_page_with_examples_is_run_by_a_test():
    elsewhere = {"README.md", "docs/train.md", "docs/serve.md", "docs/postgres.md"}
    pages = {NAMES[path] for path in PAGES if examples(path)} - {NAMES[path] for path in COMPLETE_PAGES}
    assert pages == elsewhere | set(EXAMPLES)


COMMAND = re.compile(r"^ {4}(?:\$ )?(brimful .*)$", re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    return [
        (NAMES[path], line.partition("   #")[0].rstrip(" &"))
        for path in PAGES
        for line in COMMAND.findall(path.read_text())
        if "..." not in line and "|" not in line and not line.endswith("\\")
    ]


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_of_the_pages_are_understood(page: str, line: str):
    """Parsed, not run: the command is there, and so is every option, with a value of its kind."""
    words = shlex.split(line)[1:]
    command: Any = typer.main.get_command(app)
    context = click.Context(command, info_name="brimful")
    while isinstance(command, click.Group) and words:
        name, found, words = command.resolve_command(context, words)
        assert found is not None, f"{page}: {line}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    context.resilient_parsing = True  # files that an example names are not there
    if not isinstance(command, click.Group):
        command.parse_args(context, words)
