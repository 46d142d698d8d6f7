"""A folder of schedules that exercised something new, one file each: it grows with every search that is given it, and
several searches, on several machines too, can share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from ..contracts.registry import Registry
from ..contracts.scenario import Scenario
from ..core.errors import (
    InvalidCounterexample,
    InvalidScenario,
    StreamproofError,
    Unsupported,
    UserMistake,
)
from ..recording.claims_and_faults import SavedFault
from ..recording.folder import make_folder, write_json
from ..recording.schedule_files import ScheduleFormat
from ..running.run import check_scenario
from .bench import Bench, Trial
from .guided import CorpusEntry, newest_of

VERSION: Final = 1


class CorpusFile(msgspec.Struct, frozen=True):
    """What a file holds."""

    version: int
    scenario: str
    """As `explore` was given it, with the sizes that it was brought down to."""
    events: int
    batch: int
    seed: int
    """Of the simulated world."""
    faults: tuple[SavedFault, ...]
    exercised: tuple[int, ...]


def read_corpus(folder: Path, origin: str, scenario: Scenario) -> tuple[CorpusEntry, ...]:
    """What a folder has for a scenario; nothing where it is not there yet. Raises as `ScheduleFormat.read`."""
    found = []
    for path in sorted(folder.glob("*.json")):
        saved = _FORMAT.read(path, _check)
        if (saved.scenario, saved.events, saved.batch) == (origin, scenario.workload.events, scenario.workload.batch):
            schedule = tuple(fault.fault() for fault in saved.faults)
            found.append(CorpusEntry(Trial(schedule, saved.seed), frozenset(saved.exercised), path))
    return tuple(found)


def make_corpus(folder: Path) -> None:
    """Raises UnusablePlace and StorageFailed."""
    make_folder(folder, "the corpus")


def check_schedules(entries: Sequence[CorpusEntry], bench: Bench, registry: Registry) -> None:
    """Raises InvalidCounterexample for schedules that cannot be carried out where they are to be varied."""
    for entry in entries:
        try:
            check_scenario(replace(bench.scenario, faults=entry.trial.schedule), bench.cluster, registry)
        except (UserMistake, Unsupported) as error:
            schedule = "; ".join(map(str, entry.trial.schedule))
            raise InvalidCounterexample(
                f"{entry.file or 'a schedule'} of a corpus cannot be carried out: {error} (the schedule: {schedule}); "
                f"{_FORMAT.otherwise}"
            ) from error


@dataclass(frozen=True)
class CorpusGrowth:
    """What a search has found in a corpus, and added to it."""

    had: int
    again: int
    """How many of these were to be tried as they are."""
    added: int
    trouble: str = ""
    """Why nothing more could be added."""


def tried_again(known: Sequence[CorpusEntry], schedules: int | None, seed: int) -> Sequence[CorpusEntry]:
    """Those that a search tries as they are, since what once exercised something new may violate a claim by now: as
    many as take half of its schedules, drawn by its seed, so that another search tries others."""
    most = len(known) if schedules is None else (schedules + 1) // 2
    return known if len(known) <= most else Random(f"again/{seed}").sample(known, most)


def grow_corpus(
    folder: Path, origin: str, scenario: Scenario, had: int, again: int, found: Sequence[CorpusEntry]
) -> CorpusGrowth:
    """Add what was found; what gets in the way of that is said, and nothing that was found otherwise is lost. `had` is
    how many schedules a search has found there, and `again` how many of them it has tried as they are."""
    try:
        return CorpusGrowth(had, again, add_to_corpus(folder, origin, scenario, found))
    except StreamproofError as error:
        return CorpusGrowth(had, again, 0, str(error))


def add_to_corpus(folder: Path, origin: str, scenario: Scenario, found: Sequence[CorpusEntry]) -> int:
    """Keep those that exercised what none of the folder's did, and return how many these are. Raises StorageFailed, and
    as `read_corpus`, since others may have added to it."""
    make_corpus(folder)
    known = frozenset(feature for entry in read_corpus(folder, origin, scenario) for feature in entry.features)
    new = newest_of(found, known)
    for entry in new:
        saved = CorpusFile(
            VERSION,
            origin,
            scenario.workload.events,
            scenario.workload.batch,
            entry.trial.seed,
            tuple(map(SavedFault.of, entry.trial.schedule)),
            tuple(sorted(entry.features)),
        )
        name = blake2b(msgspec.json.encode(saved, order="deterministic"), digest_size=12).hexdigest()
        write_json(folder / f"{name}.json", saved)
    return len(new)


_FORMAT: Final = ScheduleFormat(
    CorpusFile,
    VERSION,
    "a schedule of a corpus, as `streamproof explore --corpus` keeps them",
    "remove it, or name another folder",
)


def _check(found: CorpusFile) -> None:
    """Raises InvalidScenario."""
    if not found.faults:
        raise InvalidScenario("it has no faults")
    for fault in found.faults:
        fault.fault()
