"""Programs from files: read, checked, and ready to be merged."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import SupportsIndex, overload

from ..core.base.arguments import as_path, check_type
from ..core.base.errors import InputError
from .language import parse
from .language.check import type_problems
from .language.graph import Graph
from .language.problems import Problem, ProgramError
from .language.program import Program
from .language.source import Source
from .vocabulary.choose import named, vocabulary_of


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file, and the vocabulary it is read in: all that is needed to read it again elsewhere.

    Attributes:
        taken: which of its programs; None for all.
    """

    file: str
    text: str = field(repr=False)
    vocabulary: str
    taken: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Programs(Sequence[Program]):
    """Programs, in the order of their files. A name, several names, or a slice gives some of them, as `Programs`.

    Attributes:
        sources: where they come from.
        notes: steps that will fail on every sample, and yield their default.
        origins: by program the number of its source.

    Example:
        >>> both = loads("def solve_a(I):\\n    O = vmirror(I)\\n    return O\\n\\ndef solve_b(I):\\n    return I")
        >>> [program.name for program in both["solve_b"]]
        ['solve_b']
    """

    programs: tuple[Program, ...]
    sources: tuple[SourceText, ...]
    notes: tuple[Problem, ...] = field(repr=False)
    origins: tuple[int, ...] = field(repr=False)
    _graphs: dict[bool, Graph] = field(default_factory=dict, init=False, repr=False, compare=False)

    @overload
    def __getitem__(self, index: int) -> Program: ...
    @overload
    def __getitem__(self, index: slice | str | Sequence[str]) -> Programs: ...
    def __getitem__(self, index: int | slice | str | Sequence[str]) -> Program | Programs:
        if isinstance(index, SupportsIndex):
            return self.programs[index]
        if isinstance(index, slice):
            return self._some(range(len(self))[index])
        names = [program.name for program in self]
        wanted = [index] if isinstance(index, str) else list(index)
        for name in wanted:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, 1)
                hint = (
                    f"did you mean {near[0]!r}?" if near else f"the first is {names[0]!r}" if names else "there is none"
                )
                raise InputError(f"no program {name!r} among {len(names)}; {hint}")
        return self._some([names.index(name) for name in wanted])

    def _some(self, indices: Sequence[int]) -> Programs:
        """The programs of some indices, and what is needed to read them again."""
        places, counts = list[int](), [0] * len(self.sources)
        for origin in self.origins:
            taken = self.sources[origin].taken
            places.append(counts[origin] if taken is None else taken[counts[origin]])
            counts[origin] += 1
        some = Programs((), (), (), ())
        for origin, group in groupby(indices, key=self.origins.__getitem__):
            at = list(group)
            source = replace(self.sources[origin], taken=tuple(places[index] for index in at))
            programs = tuple(self.programs[index] for index in at)
            lines = {(program.file, line) for program in programs for line in program.lines}
            notes = tuple(note for note in self.notes if (note.file, note.line) in lines)
            some += Programs(programs, (source,), notes, (0,) * len(programs))
        return some

    def __len__(self) -> int:
        return len(self.programs)

    def __iter__(self) -> Iterator[Program]:
        return iter(self.programs)

    def __repr__(self) -> str:
        return f"<Programs: {len(self)} of {', '.join(source.file for source in self.sources)}>"

    def merge(self, share: bool = True) -> Graph:
        """All of them as one graph, in which what they share is computed once."""
        if share not in self._graphs:
            self._graphs[share] = Graph.of(self.programs, share)
        return self._graphs[share]

    def __add__(self, other: Programs) -> Programs:
        origins = self.origins + tuple(len(self.sources) + origin for origin in other.origins)
        programs, sources = self.programs + other.programs, self.sources + other.sources
        return Programs(programs, sources, self.notes + other.notes, origins)


def load(file: str | Path, vocabulary: str = "auto") -> Programs:
    """Reads the programs of a file, or of all Python files of a folder. Nothing of them is executed.

    Args:
        file: solvers, `def solve_x(I): ...; return O`, or a batt, `def batt(task_id, S, I, C, log_path): ...`.
        vocabulary: what its names mean: "arc-dsl", "batt", or "auto" to decide by its imports and names.

    Raises:
        ProgramError: it is no program; file, line and operation are named.
    """
    path = as_path(file, "give a file of programs, such as solvers.py, or a folder of them")
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"no Python file in {path}; give a file of programs, or a folder of them")
    texts = {str(name): _text(name) for name in files}
    whole = Programs((), (), (), ())
    for name, text in texts.items():
        source = Source.read(text, name)
        if not path.is_dir() or source.problems or source.defines_functions():  # a folder may have an __init__.py
            whole = whole + _programs(source, text, vocabulary)
    if not whole.programs:
        raise InputError(f"no program in {path}; write `def solve_x(I): ...`")
    names = [program.name for program in whole if program.name != "batt"]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(f"{path} defines {', '.join(twice[:5])} more than once; names of programs must differ")
    return whole


def loads(text: str, vocabulary: str = "auto", file: str = "<text>") -> Programs:
    """Reads the programs of a text. See `load`."""
    check_type(text, str, "give the source of programs as text; load reads a file")
    return _programs(Source.read(text, file), text, vocabulary)


def reload(sources: Sequence[SourceText]) -> Programs:
    """The programs of sources that were read before."""
    whole = Programs((), (), (), ())
    for source in sources:
        programs = _programs(Source.read(source.text, source.file), source.text, source.vocabulary)
        whole = whole + (programs if source.taken is None else programs._some(source.taken))
    return whole


def problems_of(file: str | Path, vocabulary: str = "auto") -> tuple[Programs | None, tuple[Problem, ...]]:
    """The programs of a file, None where there are none to run, and all that is wrong with it."""
    try:
        whole = load(file, vocabulary)
    except ProgramError as error:
        return None, error.problems
    return whole, whole.notes


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"no file {path}; give a file of programs, such as solvers.py") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}") from error


def _programs(source: Source, text: str, vocabulary: str) -> Programs:
    words = vocabulary_of(source) if vocabulary == "auto" else named(vocabulary)
    found, problems = parse.programs(source, words)
    for program in found:
        problems += type_problems(program)
    if any(problem.fatal for problem in problems):
        raise ProgramError(problem for problem in problems if problem.fatal)
    return Programs(tuple(found), (SourceText(source.file, text, words.name),), tuple(problems), (0,) * len(found))
