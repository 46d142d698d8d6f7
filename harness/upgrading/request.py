"""What is asked for of an upgrade, and whether it can be tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

from ..certifying.campaign import EMPTY_ON_START
from ..contracts.query import Query
from ..contracts.registry import Registry
from ..contracts.scenario import Scenario, check
from ..core.errors import InvalidScenario
from ..core.guarantees import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, Guarantee, exactly_once
from ..core.places import Places
from ..core.proper import positive, proper, switch
from ..core.workload import Workload
from ..crash_points.inside_spark.versions import supported
from ..install.spark_choice import chosen_version
from ..running.run import check_scenario
from ..worlds.embedded.cluster import EmbeddedCluster
from .namesakes import require_modules_of_their_own
from .outcomes import Basis

MINUTES: Final = 10.0
"""For trying states, each way, unless somebody says otherwise."""
_SETTINGS: Final = {
    # As certify has them: a short stream sees a file sink's log compacted, and a checkpoint with its first file alone
    # refuses nobody.
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
    EMPTY_ON_START: "false",
}
_WATCHED_BY: Final = {
    # What Spark says of its batches tells who has processed one again, however many came after it, and whatever the
    # query asks for.
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
}
_FIRST_ENTRY: Final = (
    "What is left of a driver that died while it named the first entry of the offset log, without a setting that both "
    f"versions are given here ({EMPTY_ON_START}=false): Spark finds the checkpoint not empty then, and refuses to "
    "start any query on it."
)
_ONCE: Final = frozenset({EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE})


@dataclass(frozen=True)
class UpgradeSide:
    """One version, as it is handed over."""

    query: Query
    origin: str = ""

    def __post_init__(self) -> None:
        proper(self.query, Query, "a version of an upgrade", "a Query")


@dataclass(frozen=True)
class UpgradeRequest:
    """What is asked for."""

    old: UpgradeSide
    new: UpgradeSide
    workload: Workload
    registry: Registry
    claims: tuple[Guarantee, ...] = ()
    """What must hold across the change; exactly-once where nothing is said."""
    basis: Basis = Basis.ALL
    and_back: bool = False
    minutes: float = MINUTES
    states: int | None = None
    """How many states to try at most, each way; None: as many as there is time for."""
    seed: int = 7

    def __post_init__(self) -> None:
        """Raises InvalidScenario for what a type checker would refuse."""
        for which, side in (("old", self.old), ("new", self.new)):
            proper(side, UpgradeSide, f"{which} of an upgrade", "an UpgradeSide")
        proper(self.workload, Workload, "the workload of an upgrade", "a Workload")
        proper(self.claims, Sequence, "the claims of an upgrade", "a list of guarantees")
        for claim in self.claims:
            proper(claim, Guarantee, "a claim of an upgrade", "a guarantee, as exactly_once()")
        # Whoever has no type checker says it as text, and nothing below would take that for what it is.
        proper(self.basis, str, "the basis of an upgrade", f"one of: {', '.join(Basis)}")
        if self.basis not in list(Basis):
            raise InvalidScenario(f"the basis of an upgrade cannot be {self.basis!r}; it is one of: {', '.join(Basis)}")
        object.__setattr__(self, "basis", Basis(self.basis))
        switch(self.and_back, "and_back of an upgrade")
        proper(self.minutes, int | float, "minutes of an upgrade", "a number above 0")
        if not (isfinite(self.minutes) and self.minutes > 0):
            raise InvalidScenario(f"minutes of an upgrade cannot be {self.minutes!r}; it is a number above 0")
        if self.states is not None:
            positive(self.states, "states of an upgrade")


def prepared(request: UpgradeRequest) -> UpgradeRequest:
    """With all that it leaves out. Both versions take their input in the same batches; one claim at least is made."""
    old, new = (replace(side, query=_prepared(side.query)) for side in (request.old, request.new))
    new = replace(new, query=replace(new.query, batch_events=old.query.batch_events))
    claims = request.claims or tuple(c.guarantee for c in new.query.claims if c.guarantee.name in _ONCE)
    return replace(request, old=old, new=new, claims=claims or (exactly_once(),))


def _prepared(query: Query) -> Query:
    return replace(query, settings={**_SETTINGS, **query.settings, **_WATCHED_BY})


def not_taken(request: UpgradeRequest) -> Iterator[str]:
    """What of the two versions is not tried as they say it, in sentences."""
    old, new = request.old.query.batch_events, request.new.query.batch_events
    if old != new:
        yield (
            f"NEW's batch_events={new:,}: both versions take their input in batches of {old:,}, as OLD says, since a "
            "batch that was planned before the change has those."
        )
    if any(EMPTY_ON_START not in side.query.settings for side in (request.old, request.new)):
        yield _FIRST_ENTRY


def check_request(request: UpgradeRequest, last_changed: int) -> None:
    """Raises a UserMistake: first for what is asked for, and then for what the machine lacks."""
    queries = (request.old.query, request.new.query)
    scenarios = [Scenario(query, request.workload, claims=request.claims) for query in queries]
    for scenario in scenarios:
        check(scenario, Places(()), request.registry.faults, request.registry.oracles)
    for query in queries:
        _check_query(query, request)
    if strange := [claim for claim in request.claims if claim.name not in _ONCE]:
        raise InvalidScenario(
            f"an upgrade is judged by its table alone, which says nothing of {strange[0]}; what can be claimed of it: "
            f"{', '.join(sorted(_ONCE))}"
        )
    if last_changed < 0:
        raise InvalidScenario(
            f"an input of {request.workload.events:,} events is no whole batch of {queries[0].batch_events:,}, so "
            "nothing would be committed before the change: give it more events, or the query a smaller batch_events"
        )
    require_modules_of_their_own(queries)
    for scenario in scenarios:
        check_scenario(scenario, EmbeddedCluster(), request.registry)
    for query in queries:
        supported(chosen_version(query.spark))


def _check_query(query: Query, request: UpgradeRequest) -> None:
    if not query.copyable:
        raise InvalidScenario(
            f"query {query.name!r} keeps something outside of its folders (stores, or a source of its own), which "
            "cannot be put back as it was at a crash: an upgrade is tried from hundreds of states, so give it the "
            "harness's source, and a sink in its folders"
        )
    if query.read is not None and request.basis is Basis.SINCE:
        raise InvalidScenario(
            f"query {query.name!r} has a table that a consumer reads, of which nobody can say what is of the time "
            "since the change: compare with --reference all, or leave write and read out"
        )
