"""Long histories are judged in columns and short ones row by row: both come to the same, whatever is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from sampling import long_but_for
from simulation import CASES, SPREAD, drawn, history_of, scenario_of, subject_of
from streamproof.harness.core.verdicts import Tally
from streamproof.harness.recording import sealed
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, Stamped
from streamproof.harness.recording.sealed import SealedRecords
from streamproof.harness.recording.sealing import seal
from told_by import told_by

SHORT = 7
"""Rows from which on a sequence is long, so that every history has some."""


def long_from(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("streamproof.harness.judging.") and hasattr(module, "CHUNK"):
            monkeypatch.setattr(module, "CHUNK", rows)


def spoilt(history: History, random: Random) -> History:
    """With a delivery left out, repeated, turned round, or with another value."""
    records = list(history.records)
    places = [n for n, stamped in enumerate(records) if isinstance(stamped.record, Delivered) and stamped.record.rows]
    if not places:
        return history
    place = random.choice(places)
    stamped = records[place]
    record: Any = stamped.record
    rows = list(record.rows)
    other = msgspec.structs.replace(rows[0], value=[-1])
    changed = random.choice(([], [*rows, *rows], rows[::-1], [other, *rows[1:]], rows[1:]))
    records[place] = Stamped(stamped.at, msgspec.structs.replace(record, rows=changed))
    return History(records, history.timeline)


def told(case: str, history: History) -> dict[str, object]:
    """All that a collation counts, with its evidence, by a subject that has judged nothing before."""
    found = told_by(subject_of(case).collate(history))
    return {name: value for name, value in found.items() if isinstance(value, Tally | str)}


def sealed_in(folder: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    """The same history, its records in tables, of which a few rows are read at a time."""
    monkeypatch.setattr(sealed, "_ROWS", 2 * SHORT)
    seal(history.records, folder)
    return History(SealedRecords(folder), history.timeline)


@pytest.mark.parametrize("case", long_but_for(sorted(SPREAD)[::3], CASES))
def test_long_and_short_histories_are_judged_alike(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scenario = scenario_of(case)
    histories = []
    for seed in range(2):
        history = history_of(scenario, drawn(scenario, seed, "usual"), seed=seed)
        histories += [history, spoilt(history, Random(seed))]
    short = [told(case, history) for history in histories]
    with monkeypatch.context() as patched:
        long_from(SHORT, patched)
        for history, expected in zip(histories, short, strict=True):
            assert told(case, history) == expected
            assert told(case, sealed_in(tmp_path, history, patched)) == expected
