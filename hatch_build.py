"""What the package index shows: README with links that work there, and the project's URLs.

Links in README.md are relative, so that they work in a clone and on any forge. An index has no files beside the page,
so a build makes them absolute, below the address of the repository: `BRIMFUL_REPOSITORY`, or where `origin` is. A build
that knows neither (a copy without git) leaves the pictures out and turns links to files into their text.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # the functions below are tested without it, too
    MetadataHookInterface = object

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_SSH = re.compile(r"(?:ssh://)?git@([^:/]+)[:/](.+)")


class RepositoryHook(MetadataHookInterface):
    """Fills `readme` and `urls`, which pyproject.toml declares as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        url = repository(root)
        text = with_links((root / "README.md").read_text(), url)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(url)


def repository(root: Path) -> str | None:
    """The https address of the repository, without an ending; None where it is not known."""
    given = os.environ.get("BRIMFUL_REPOSITORY")
    if not given and (root / ".git").exists():
        asked = ["git", "-C", str(root), "remote", "get-url", "origin"]
        try:
            given = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        except OSError:
            given = None
    given = _SSH.sub(r"https://\1/\2", given or "").removesuffix("/").removesuffix(".git")
    return given if re.match(r"https?://[^@]+$", given) else None


def urls(repository: str | None) -> dict[str, str]:
    """The project's URLs."""
    if repository is None:
        return {}
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def with_links(text: str, repository: str | None) -> str:
    """A page whose links and images work on an index."""

    def absolute(match: re.Match[str]) -> str:
        target = match["target"]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        if repository is None:
            return "" if match["image"] else match["text"]
        kind = "raw" if match["image"] else "blob"
        return f"{match['image']}[{match['text']}]({repository}/{kind}/main/{target})"

    return _LINK.sub(absolute, text)
