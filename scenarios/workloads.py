"""The workloads that scenarios feed."""

from __future__ import annotations

import ast
import codecs
import contextlib
import inspect
import io
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from random import Random

from ..harness.core.errors import UnknownName
from ..harness.core.proper import positive
from ..harness.core.workload import Workload

DOCUMENTED = (
    "difflib",
    "doctest",
    "http.client",
    "imaplib",
    "inspect",
    "ipaddress",
    "logging",
    "optparse",
    "random",
    "smtplib",
    "statistics",
    "tarfile",
    "threading",
    "typing",
    "unittest.mock",
)
"""Modules of the standard library with much to say: the text `docstrings` is theirs."""


def text(
    name: str = "python-docs", *, events: int = 2_000, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """Lines of a real text, one an event: key the line's number, value the line. The seed says where in the text to
    begin; it starts over where it ends.

    `python-docs` is the language reference that Python's help() carries, 8,700 lines or more; `docstrings` is what 15
    modules of the standard library say of themselves, 5,800 or more. Both differ between versions of Python. The same
    in all are `unicode-names`, the names of 12,886 characters of Unicode 3.2, in which a few words come very often, and
    `zen`, which is short. Raises UnknownName for any other.
    """
    if not isinstance(name, str) or name not in _TEXTS:
        raise UnknownName("text", name, list(_TEXTS))

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        lines = _lines(name)
        start = Random(seed).randrange(len(lines))
        for number in range(count):
            yield str(number), lines[(start + number) % len(lines)]

    return Workload(name, events, batch, draw, seed, rate)


def numbered(
    *,
    events: int = 200,
    keys: int = 8,
    batch: int = 10,
    seed: int = 7,
    rate: int | None = None,
    spacing: Mapping[str, int] | None = None,
) -> Workload:
    """Events that mean nothing, under one of `keys` keys each, drawn from the seed: what the trace topology is fed, and
    windows, joins and merges."""
    positive(keys, "keys")

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield f"k{random.randrange(keys)}", number

    return Workload("numbered", events, batch, draw, seed, rate, {} if spacing is None else spacing)


def ones(
    keys: int = 4, *, marks: int = 0, events: int = 200, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """The number 1 under one of `keys` keys each, of which the first come more often than the last; every so many
    events (`marks`) one under the key `mark`. To be added up, by `word_totals` and the like."""
    positive(keys, "keys")

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(1, count + 1):
            key = f"k{min(random.randrange(keys), random.randrange(keys))}"
            yield ("mark" if marks and number % marks == 0 else key), 1

    return Workload("ones", events, batch, draw, seed, rate)


def words(
    vocabulary: int = 50, *, events: int = 200, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """Lines of a single word each, drawn from a small vocabulary: as many events in every part of a word count."""
    positive(vocabulary, "vocabulary")

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield str(number), f"w{random.randrange(vocabulary)}"

    return Workload("words", events, batch, draw, seed, rate)


def single_words(
    vocabulary: int = 50, *, events: int = 200, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """As `words`, already split: keyed by the word, with the value 1, as a counter takes them."""
    positive(vocabulary, "vocabulary")

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for _ in range(count):
            yield f"w{random.randrange(vocabulary)}", 1

    return Workload("single-words", events, batch, draw, seed, rate)


@cache
def _lines(name: str) -> tuple[str, ...]:
    return tuple(stripped for line in _TEXTS[name]() if (stripped := line.strip()))


def _python_docs() -> Iterator[str]:
    from pydoc_data.topics import topics

    for topic in sorted(topics):
        yield from topics[topic].splitlines()


def _docstrings() -> Iterator[str]:
    """Read from the modules' source, since Python leaves docstrings out when told to optimise."""
    for name in DOCUMENTED:
        for node in ast.walk(ast.parse(inspect.getsource(import_module(name)))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from (ast.get_docstring(node) or "").splitlines()


def _unicode_names() -> Iterator[str]:
    """Without ideographs and Hangul syllables, which are named by a rule."""
    for number in range(sys.maxunicode + 1):
        name = unicodedata.ucd_3_2_0.name(chr(number), "")
        if not name.startswith(("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HANGUL SYLLABLE")):
            yield name


def _zen() -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    return codecs.decode(this.s, "rot13").splitlines()


_TEXTS: dict[str, Callable[[], Iterable[str]]] = {
    "python-docs": _python_docs,
    "docstrings": _docstrings,
    "unicode-names": _unicode_names,
    "zen": _zen,
}
TEXTS = tuple(_TEXTS)
