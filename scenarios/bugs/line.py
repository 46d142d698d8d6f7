"""What stands in the list of real bugs: the query that meets one, the releases that have it and have it no more, and
the schedule that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...harness.contracts.query import Query
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import Guarantee, exactly_once
from ...harness.core.quantities import Duration, seconds
from ...harness.core.schedule import Schedule
from ...harness.core.verdicts import Anomaly
from ...harness.core.workload import Workload


@dataclass(frozen=True)
class Release:
    """What a query runs on."""

    name: str
    """Of what has the bug, or has it no more, with its number."""
    spark: str
    packages: tuple[str, ...] = ()
    server: str = ""
    """Where the server listens that its query needs, `host:port`, if that is known."""


@dataclass(frozen=True)
class Report:
    """Where a bug is reported, or its correction."""

    name: str
    address: str


@dataclass(frozen=True)
class RealBug:
    """One that was released."""

    name: str
    what: str
    """What went wrong, in few words."""
    reports: tuple[Report, ...]
    affected: Release
    fixed: Release | None
    """That has it no more; or not yet, where the bug came with a release. None: no such release was known when this was
    written."""
    make: Callable[[Release], Query]
    """The same query on either, which is right where the bug is not."""
    workload: Workload
    schedule: Schedule
    """One crash or two, or a write that is refused, as the report has it."""
    anomalies: frozenset[Anomaly]
    """As what it shows itself on the affected release. None: there the query fails without any fault."""
    claim: Guarantee = exactly_once()
    deadline: Duration = seconds(600)
    server: str = ""
    """What has to listen somewhere."""

    def scenario(self, release: Release) -> Scenario:
        """The schedule on that release. Raises what making its query raises."""
        return Scenario(self.make(release), self.workload, self.schedule, claims=[self.claim], deadline=self.deadline)
