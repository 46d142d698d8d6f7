"""The mutants of source replay. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events, seconds
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ..mechanisms.tracking import Tell, Track
from ..source_replay import source_replay
from . import twists
from .mutant import BrokenScheme, twisting, without

_FOLLOWED = "stateless.source-replay"


def _followed(topology: Topology, every: Events) -> SchemeSubject:
    return source_replay(topology, timeout=seconds(0.05))


MUTANTS = (
    BrokenScheme(
        "source-replay-following-nothing",
        "an event that is not known to be processed in time is sent again",
        Anomaly.LOST_INPUT,
        without(without(_followed, Track, Role.SOURCE), Tell, Role.OPERATOR, Role.SINK),
        on=_FOLLOWED,
    ),
    BrokenScheme(
        "source-replay-forgetting-what-was-made",
        "an event is processed when all that was made of it is",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.tells_nothing_of_what_it_made),
        on=_FOLLOWED,
    ),
    BrokenScheme(
        "source-replay-following-only-the-first-attempt",
        "an event that was sent again is followed again",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.follows_only_the_first_attempt, Role.SOURCE),
        on=_FOLLOWED,
    ),
    BrokenScheme(
        "source-replay-telling-of-what-is-in-the-window",
        "an event is processed when it has left the windows that it is in",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.tells_of_what_is_in_the_window),
        on="windows.upstream-backup",
    ),
    BrokenScheme(
        "source-replay-telling-before-it-takes",
        "what is told was taken",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.tells_and_does_not_take),
        on=_FOLLOWED,
    ),
    BrokenScheme(
        "source-replay-dropping-what-comes-again",
        "nobody filters: an event that is sent again was not processed",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.drops_and_tells_what_comes_again),
        on=_FOLLOWED,
    ),
)
