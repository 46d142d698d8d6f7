"""Schedules that are varied from those that exercised something new, as fuzzers do that are guided by coverage.

Who works through a piece begins with the corpus that the search was given, and keeps what is new to it: so a piece
gives the same wherever it is worked through. It takes as long as hundreds of schedules, so that what it keeps pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from ..recording.history import History
from .bench import Bench, Trial
from .novelty import Features, features
from .plans import (
    LIKELY,
    MOST_FAULTS,
    WITHIN,
    JudgedTrial,
    LostTrials,
    RandomSchedules,
    judged,
    settled,
    so_far_ahead,
    without_trigger,
)

PIECE: Final = 400
"""Schedules of a piece."""
_AFRESH: Final = 0.25
"""How often a schedule is drawn at random, so that none is out of reach."""
_RECENT: Final = 0.5
"""How often one of the newest is varied."""
_NEWEST: Final = 12
_FAR: Final = 0.3


@dataclass(frozen=True)
class CorpusEntry:
    """A schedule that exercised something new, and all that it exercised."""

    trial: Trial
    features: Features
    file: Path | None = field(default=None, compare=False)
    """That it was read from; None: it was found just now."""


@dataclass(frozen=True)
class GuidedSchedules:
    """Schedules that exercised something new are kept and varied: other faults after the first of theirs, one more, in
    another world, or against other targets.

    What is varied counts for no bound, since it depends on what came before. What is drawn afresh does not, and counts.
    """

    seed: int
    kinds: tuple[str, ...] = ("crash",)
    corpus: tuple[CorpusEntry, ...] = ()
    most: int = MOST_FAULTS + 1
    large: ClassVar[bool] = True

    def pieces(self, bench: Bench) -> Iterator[int]:
        piece = 0
        while True:
            yield piece
            piece += 1

    def trials(self, bench: Bench, piece: int) -> Iterator[Trial]:
        return (trial for trial, _ in self.attempts(bench, piece))

    def lost(self, bench: Bench, piece: int) -> LostTrials:
        """As if all of it had been drawn afresh: which of it was, is drawn while it is run."""
        return LostTrials(PIECE, PIECE)

    def attempts(self, bench: Bench, piece: int) -> Iterator[JudgedTrial]:
        random = Random(f"guided/{self.seed}/{piece}")
        afresh = RandomSchedules(random.getrandbits(32), kinds=self.kinds)
        kept = [entry.trial for entry in self.corpus]
        seen = {feature for entry in self.corpus for feature in entry.features}
        for number in range(PIECE):
            if not kept or random.random() < _AFRESH:
                trial, history = afresh.drawn(bench, number)
            else:
                chosen = random.choice(kept[-_NEWEST:] if random.random() < _RECENT else kept)
                trial, history = self._varied(bench, chosen, random)
            history, outcome = judged(bench, trial, history)
            exercised = features(history, outcome.at_work)
            if not exercised <= seen:
                seen |= exercised
                # What is made of it depends on what came before.
                kept.append(replace(trial, random=False))
                outcome = replace(outcome, exercised_new=exercised)
            yield trial, outcome

    def _varied(self, bench: Bench, trial: Trial, random: Random) -> tuple[Trial, History | None]:
        schedule = trial.schedule
        match random.choice(("ahead", "ahead", "ahead", "more", "more", "world", "targets")):
            case "world":
                return replace(trial, seed=random.getrandbits(32)), None
            case "targets":
                place = random.randrange(len(schedule))
                kind = bench.registry.faults[schedule[place].kind]
                if kind.hits_any_nodes:
                    targets = bench.aims.some(random)
                    targets = bench.apart(targets) if bench.is_limited else targets
                    changed = replace(schedule[place], targets=targets)
                    return replace(trial, schedule=(*schedule[:place], changed, *schedule[place + 1 :])), None
            case "more" if len(schedule) < self.most:
                return self._going_on(bench, trial, len(schedule), random)
        return self._going_on(bench, trial, random.randrange(max(1, len(schedule) - 1), len(schedule) + 1), random)

    def _going_on(self, bench: Bench, trial: Trial, since: int, random: Random) -> tuple[Trial, History | None]:
        """The first faults of a schedule, and one more."""
        kind, fault = without_trigger(bench, self.kinds, random)
        within = bench.is_limited and random.random() < WITHIN
        if within and kind.hits_any_nodes:
            fault = replace(fault, targets=bench.apart(fault.targets))
        likely = kind if kind.bites_at and random.random() < LIKELY else None
        ahead = so_far_ahead(bench, likely, fault, within, random.random() < _FAR, 1.0, random)
        return settled(bench, trial.schedule[: min(since, self.most - 1)], [ahead], trial.seed)


def newest_of(found: Sequence[CorpusEntry], known: Features) -> list[CorpusEntry]:
    """Those that exercised what is not known, and what none before them did."""
    kept: list[CorpusEntry] = []
    seen = set(known)
    for entry in found:
        if not entry.features <= seen:
            seen |= entry.features
            kept.append(entry)
    return kept
