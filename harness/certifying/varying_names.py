"""Names of files that are others in each attempt: there is a process in them, a time, or what was drawn at random.

Two attempts that do the same show which part of a name varies. From then on every attempt is told of by the rest, so
that a crash point is called alike in all of them: else nobody could come to it again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Final

VARIES: Final = "…"
"""Stands for a part of a name that varies."""
_THEN: Final = " > "
"""What stands between two paths in an operation as it is announced (`rename sink/.a.tmp > sink/a`)."""
_IN_TEXT: Final = re.compile(r"[^\s,]+")
"""What may be a path, among words."""
_WORDS: Final = re.compile(r"(\W)")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class VaryingNames:
    """The paths of such files, by what does not vary of them: `sink/rows-…-….tmp`."""

    shapes: frozenset[str] = frozenset()

    def plain(self, said: str) -> str:
        """An operation as it is announced, by what does not vary of it."""
        if not self.shapes:
            return said
        kind, paths = _parts(said)
        return f"{kind} {_THEN.join(map(self._plain, paths))}"

    def plain_text(self, text: str) -> str:
        """Words that name such files among others."""
        return _IN_TEXT.sub(lambda found: self._plain(found[0]), text) if self.shapes else text

    def with_those_in(self, texts: Iterable[str]) -> VaryingNames:
        """And those that are told of by their shapes already."""
        paths = (path.split("/") for text in texts for path in _IN_TEXT.findall(text))
        return VaryingNames(
            self.shapes | {"/".join(path[: n + 1]) for path in paths for n, name in enumerate(path) if VARIES in name}
        )

    def _plain(self, path: str) -> str:
        found = ""
        for name in path.split("/"):
            here = f"{found}/{name}" if found else name
            found = next((shape for shape, pattern in self._patterns if pattern.fullmatch(here)), here)
        return found

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        """What says most of a path comes first."""
        shapes = sorted(self.shapes, key=lambda shape: (-len(shape), shape))
        return [(shape, re.compile(_in_shape(shape))) for shape in shapes]


def _in_shape(shape: str) -> str:
    """What is before its last name is told of by shapes already."""
    folder, slash, name = shape.rpartition("/")
    return re.escape(folder + slash) + re.escape(name).replace(VARIES, _WORD.pattern)


def varying_names(one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]) -> VaryingNames:
    """Of the operations of two attempts that did the same, in their order, each with its batch: the names that only one
    of them has, where each has one in the other's that differs in some words."""
    found: set[str] = set()
    for here, there in _only_in_one(one, other):
        shapes = [_shapes(*pair) for pair in zip_longest(here, there, fillvalue="")]
        if all(shapes):
            found.update(shape for those in shapes for shape in those or ())
    return VaryingNames(frozenset(found))


def _only_in_one(
    one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]
) -> Iterator[tuple[list[str], list[str]]]:
    """By batch and kind of operation, what only the first has done, and what only the second has."""
    apart: dict[tuple[str, str], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for which, (mine, known) in enumerate(((one, set(other)), (other, set(one)))):
        for batch, said in mine:
            if (batch, said) not in known:
                apart[batch, _parts(said)[0]][which].append(said)
    return iter(apart.values())


def _parts(said: str) -> tuple[str, list[str]]:
    """Its kind, and the paths that it is about."""
    kind, _, paths = said.partition(" ")
    return kind, paths.split(_THEN)


def _shapes(one: str, other: str) -> set[str] | None:
    """The paths in which two operations differ, by what is the same; None where they differ in more than words."""
    here, there = _parts(one)[1], _parts(other)[1]
    if len(here) != len(there):
        return None
    found = set()
    for path, twin in zip(here, there, strict=True):
        names = list(zip_longest(path.split("/"), twin.split("/"), fillvalue=""))
        shared = [_shared(*pair) for pair in names]
        if not all(shared):
            return None
        found |= {"/".join(map(str, shared[: n + 1])) for n, (name, its) in enumerate(names) if name != its}
    return found


def _shared(name: str, twin: str) -> str:
    """What two names have in common; empty where they differ in more than words. Where they differ, so may any number
    in them: of a time, the minutes are mostly the same."""
    if name == twin:
        return name
    pairs = list(zip_longest(_WORDS.split(name), _WORDS.split(twin), fillvalue=""))
    if any(mine != its and not (_WORD.fullmatch(mine) and _WORD.fullmatch(its)) for mine, its in pairs):
        return ""
    return "".join(mine if mine == its and not mine.isdigit() else VARIES for mine, its in pairs)
