"""The site's hooks; `make docs` builds the site, which takes longer."""

import re

import brimful

from .helpers.paths import ROOT


def test_docstrings_are_read_in_the_form_that_griffe_knows():
    import docs_site

    given = "A line.\n\nArgs:\n    x, y: both,\n        of one length.\n    z: one.\n\nExample:\n    >>> f(1)\n    2\n"
    assert docs_site.plain(given) == (
        "A line.\n\nArgs:\n    x: both,\n        of one length.\n    y: both,\n        of one length.\n    z: one.\n\n"
        "Examples:\n    >>> f(1)\n    2\n"
    )


def test_a_public_name_without_an_entry_is_missed():
    import docs_site

    assert {f"brimful.{name}" for name in brimful.__all__} - set(docs_site.missing(set())) == docs_site.NO_OBJECTS
    assert "brimful.gp.fit" not in docs_site.missing({"brimful.gp.fit.fit"})
    assert "brimful.workloads.option" in docs_site.missing({"brimful.option"})


def test_entries_of_the_reference_are_of_names_that_are_there():
    """A page of each; that none is missing is checked when the site is built."""
    nav = (ROOT / "mkdocs.yml").read_text()
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert [str(page.relative_to(ROOT / "docs")) for page in pages if page.name not in nav] == []
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        assert re.search(r"^::: brimful", page.read_text(), re.MULTILINE)


def test_a_notebook_is_a_page():
    import docs_site

    page = docs_site.notebook_page(ROOT / "docs" / "tutorials" / "first-map.ipynb")
    assert page.startswith("# ") and "```python\nimport" in page
