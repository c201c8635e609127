"""What the documentation site needs beside its pages: hooks of mkdocs, and an extension of griffe for docstrings.

- `Example:` is the section `Examples:`, and an argument `x, y: ...` is each of them.
- Links to `../examples/` lead to copies on the site.
- A public name without an entry in the API reference is a warning, and so an error of a strict build.
- Notebooks of `docs/tutorials` are pages.
"""

import ast
import json
import logging
import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parent
WORKLOADS = ("gp", "gpcm", "wpo", "programs", "locate")
PACKAGES = ("", ".data", ".workloads", *(f".{name}" for name in WORKLOADS))
NO_OBJECTS = {"brimful.__version__"}

_log = logging.getLogger("mkdocs.plugins.brimful")
_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
_GROUP = re.compile(
    r"^(?P<indent> +)(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)+): (?P<text>.*(?:\n(?P=indent) +\S.*)*)", re.MULTILINE
)


class Docstrings(griffe.Extension):
    """Docstrings in the form that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = plain(obj.docstring.value)


def plain(docstring: str) -> str:
    """A docstring whose sections and arguments griffe knows."""
    text = _EXAMPLE.sub(r"\1Examples:", docstring)
    head, found, rest = text.partition("Args:\n")
    if not found:
        return text
    section, blank, after = rest.partition("\n\n")
    return head + found + _GROUP.sub(_each, section) + blank + after


def _each(match: re.Match[str]) -> str:
    return "\n".join(f"{match['indent']}{name}: {match['text']}" for name in match["names"].split(", "))


def on_files(files: Any, config: Any) -> Any:
    """Adds the examples as files, and the tutorials as pages."""
    from mkdocs.structure.files import File

    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", content=path.read_text()))
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=notebook_page(path)))
    return files


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its cells, without outputs."""
    cells = json.loads(path.read_text())["cells"]
    texts = (("".join(cell["source"]).rstrip(), cell["cell_type"]) for cell in cells)
    return "\n\n".join(f"```python\n{text}\n```" if kind == "code" else text for text, kind in texts) + "\n"


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    """Links to examples lead to the copies on the site."""
    return markdown.replace("](../examples/", "](examples/")


def on_post_build(config: Any) -> None:
    """Warns of public names that the API reference does not have."""
    pages = Path(config["site_dir"], "reference").glob("*.html")
    anchors = {found for page in pages for found in re.findall(r'id="(brimful[\w.]*)"', page.read_text())}
    for name in missing(anchors):
        _log.warning("The API reference has no entry for the public name '%s'.", name)


def missing(anchors: set[str]) -> list[str]:
    """The public names that none of these anchors stands for: by their own path, or by that of their definition."""
    return [
        name
        for package in PACKAGES
        for name, definition in public(f"brimful{package}").items()
        if not {name, definition} & anchors and name not in NO_OBJECTS
    ]


def public(package: str) -> dict[str, str]:
    """The public names of a package, and where each is imported from; the package is read, not imported."""
    place = ROOT / "src" / package.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    parent = package if place.is_dir() else package.rpartition(".")[0]
    imported, names = {}, []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parent.rsplit(".", node.level - 1)[0] + (f".{node.module}" if node.module else "")
            imported |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
    return {f"{package}.{name}": imported.get(name, f"{package}.{name}") for name in names}
