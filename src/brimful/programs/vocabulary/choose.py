"""Which vocabulary a source is written in: arc-dsl's, whose cells are (color, (i, j)) and whose operations raise, or
that of the generator of batts, whose cells are (i, j, color) and whose operations yield a default where they fail."""

from __future__ import annotations

from ...core.base.errors import ConfigError
from ..language.operation import Vocabulary
from ..language.source import Source
from .arc import ARC
from .batt import BATT
from .registered import extended

VOCABULARIES = {vocabulary.name: vocabulary for vocabulary in (ARC, BATT)}

_OF_GENERATOR = frozenset({"pile", "safe_dsl", "batt_gpu", "gpu_env"})


def named(name: str) -> Vocabulary:
    """A vocabulary by its name, with the registered operations."""
    if name not in VOCABULARIES:
        raise ConfigError(f"vocabulary is {name!r}; choose one of {', '.join(VOCABULARIES)}, or auto")
    return extended(VOCABULARIES[name])


def vocabulary_of(source: Source) -> Vocabulary:
    """The vocabulary of a source: by the modules it imports, and where those do not say, by the names it uses."""
    if source.imports() & _OF_GENERATOR:
        return named(BATT.name)
    known_to_arc = ARC.operations.keys() | ARC.constants.keys()
    of_batt_alone = (BATT.operations.keys() | BATT.constants.keys()) - known_to_arc
    return named(BATT.name if source.names() & of_batt_alone else ARC.name)
