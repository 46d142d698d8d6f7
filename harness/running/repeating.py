"""Whether a run of the simulator left what its folder tells. There the same seed and the same faults make the same
history, so the run is made once more, and compared with the record as it goes.

What is in a folder can be altered so that nothing in it contradicts anything else; it can hardly be made to be what its
scenario makes. Nor can code that rests on anything but its input and its states be believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from ..contracts.cluster import Cluster, Run
from ..contracts.registry import Registry
from ..core.errors import StreamproofError
from ..recording.folder import Description
from ..recording.history import History, Remembered, Stamp, TimelineEntry
from ..recording.records import Record, Stamped, leaves_rows, whose
from .carrying_out import carry_out
from .replaying import planned_again

MakesCluster = Callable[[Mapping[str, Any]], Cluster]
"""The cluster that a record tells of."""
LONGEST: Final = 500_000
"""Events; a run of more is not made again."""
_SIMULATED: Final = "simulated"
_encode = msgspec.json.Encoder(order="sorted").encode
"""As records are sealed: a tuple is a list there."""


class _Differs(Exception):
    """There is no need to go on."""


def why_not_repeated(
    path: Path, description: Description, history: History, registry: Registry, cluster_of: MakesCluster
) -> str:
    """In words, how a run that is made again differs from its record; empty where it does not, where it ran on a real
    cluster, was cut short, or is too long to be made again. Raises what `planned_again` does."""
    cluster = description.cluster.get("cluster")
    if cluster != _SIMULATED and any(entry.stamp.step is not None for entry in history.timeline):
        return f"it has steps, which only a {_SIMULATED} cluster counts, and {cluster!r} is named as its cluster"
    if cluster != _SIMULATED or not history.sealed or _length(history) > LONGEST:
        return ""
    _, named = planned_again(path, registry)
    compared = _Compared(history)
    run = Run("again", named.scenario, description.seed, compared, registry.faults, None)
    try:
        carry_out(run, cluster_of(description.cluster))
        compared.end()
    except _Differs:
        pass
    except StreamproofError as error:
        return compared.differs or f"it cannot be run again ({error})"
    return compared.differs


def _length(history: History) -> int:
    return sum(span.length for span in history.offered())


class _Compared:
    """A recorder that knows what is to come. It keeps nothing."""

    def __init__(self, history: History) -> None:
        self._records = iter(history.records)
        self._timeline: Iterator[TimelineEntry] = filter(_tells, history.timeline)
        self._latest = 0
        self.differs = ""
        """How, in words; empty where nothing was seen to."""

    def note(self, at: int, record: Record) -> None:
        if leaves_rows(record):
            self._compare(at, Stamped(at, record), next(self._records, None))

    def log(self, entry: TimelineEntry) -> None:
        if _tells(entry):
            self._compare(entry.stamp.at, entry, next(self._timeline, None))

    def deployed(self, facts: Mapping[str, object]) -> None:
        """Nothing is known of a simulated cluster only then."""

    @property
    def latest(self) -> Stamp:
        return Stamp(self._latest)

    def end(self) -> None:
        """Nothing more comes."""
        for one in chain(self._records, self._timeline):
            self._differ(f"{_shown(one)}, on record, does not happen")

    def _compare(self, at: int, made: Stamped | TimelineEntry, known: Stamped | TimelineEntry | None) -> None:
        self._latest = max(self._latest, at)
        if known is None or _encode(known) != _encode(made):
            self._differ(f"after {at / 1e6:g} s, {_shown(made)} is not on record as it happens")

    def _differ(self, how: str) -> NoReturn:
        self.differs = self.differs or how
        raise _Differs


def _tells(entry: TimelineEntry) -> bool:
    """Whoever did not look for what the subject's code remembers has not said that nothing is."""
    return not isinstance(entry, Remembered) or bool(entry.what)


def _shown(one: Stamped | TimelineEntry) -> str:
    if not isinstance(one, Stamped):
        return str(type(one).__struct_config__.tag)
    tag, who = str(type(one.record).__struct_config__.tag), whose(one.record)
    return f"{tag} of {who}" if who else tag
