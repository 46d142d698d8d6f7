"""The workloads that scenarios feed."""

from __future__ import annotations

import codecs
import contextlib
import io
from collections.abc import Iterator
from functools import cache
from random import Random

from ..harness.errors import UnknownName
from ..harness.workload import Workload

TEXTS = ("python-docs", "zen")


def text(
    name: str = "python-docs", *, events: int = 2_000, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """Lines of a real text, one an event: key the line's number, value the line. The seed says where in the text to
    begin; it starts over where it ends.

    `python-docs` is the language reference that Python's help() carries, and differs between versions of Python;
    `zen` is short, and the same in all. Raises UnknownName for any other.
    """
    if name not in TEXTS:
        raise UnknownName("text", name, list(TEXTS))

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        lines = _lines(name)
        start = Random(seed).randrange(len(lines))
        for number in range(count):
            yield str(number), lines[(start + number) % len(lines)]

    return Workload(name, events, batch, draw, seed, rate)


def numbered(*, events: int = 200, keys: int = 8, batch: int = 10, seed: int = 7, rate: int | None = None) -> Workload:
    """Events that mean nothing, under one of `keys` keys each, drawn from the seed: what the trace topology is fed."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield f"k{random.randrange(keys)}", number

    return Workload("numbered", events, batch, draw, seed, rate)


def words(
    vocabulary: int = 50, *, events: int = 200, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """Lines of a single word each, drawn from a small vocabulary: as many events in every part of a word count."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield str(number), f"w{random.randrange(vocabulary)}"

    return Workload("words", events, batch, draw, seed, rate)


@cache
def _lines(name: str) -> tuple[str, ...]:
    if name == "zen":
        with contextlib.redirect_stdout(io.StringIO()):
            import this
        source = codecs.decode(this.s, "rot13")
    else:
        from pydoc_data.topics import topics

        source = "\n".join(topics[topic] for topic in sorted(topics))
    return tuple(line.strip() for line in source.splitlines() if line.strip())
