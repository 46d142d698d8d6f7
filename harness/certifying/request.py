"""What a campaign is asked to certify."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.query import Query
from ..contracts.registry import Named, Registry
from ..contracts.scenario import Scenario
from ..core.guarantees import Guarantee
from ..core.workload import Workload


@dataclass(frozen=True)
class CampaignRequest:
    query: Query
    workload: Workload
    claims: tuple[Guarantee, ...]
    registry: Registry
    seed: int
    origin: str = ""
    """Where the query can be imported from, if it can."""
    fed_from: str = ""
    """Where its workload can, if that is not what it is fed anyway."""

    @property
    def named(self) -> Named:
        """A run of the query without faults, as runs are described."""
        scenario = Scenario(self.query, self.workload, claims=self.claims)
        return Named(self.query.name, self.origin or self.query.name, "", scenario)
