"""What a sink's folder tells of how far a batch has come: the names in it, and what its SQLite databases hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ..crash_points.files.naming import is_in_sink
from ..crash_points.files.operations import BESIDE_SQLITE, database_beside
from .crash_states import CrashState

ToldBySink = frozenset[tuple[str, str]]
"""Paths, each with what it holds where that is a database; else with nothing."""


def told_by_names(states: Sequence[CrashState], home: Path) -> list[ToldBySink]:
    """Of each of these, which follow each other, what is told by the sink in that folder. A database holds what SQLite
    takes it back to: who keeps marks of his own in it has done more than one whose names are the same."""
    databases = {database_beside(path) for state in states for path in state.entries} - {""}
    begins = {
        (path, _as_it_is(before, path)): _taken_back(state, path)
        for before, state in pairwise(states)
        for path in databases
        if not _is_within(before, path) and _taken_back(state, path)
    }
    """What is there when a transaction begins is what SQLite takes it back to."""
    found = []
    known = dict.fromkeys(databases, "")
    for state in states:
        for path in databases:
            if not _is_within(state, path):
                content = _as_it_is(state, path)
                known[path] = begins.get((path, content), content)
            else:
                # Where nobody knows, it is what it was.
                known[path] = _taken_back(state, path) or known[path]
        names = [path for path, _, _ in state.shown if is_in_sink(path, home)]
        found.append(frozenset((path, known.get(path, "")) for path in names))
    return found


def _is_within(state: CrashState, database: str) -> bool:
    """Whether it is in the middle of a transaction, or has a log."""
    return any(f"{database}{name}" in state.entries for name in BESIDE_SQLITE)


def _as_it_is(state: CrashState, database: str) -> str:
    entry = state.entries.get(database)
    return "" if entry is None else entry.content or ""


def _taken_back(state: CrashState, database: str) -> str:
    """To which content; empty where that is not known, or it is in no transaction."""
    entry = state.entries.get(database)
    return "" if entry is None else entry.rolled_back.rpartition(": ")[2]
