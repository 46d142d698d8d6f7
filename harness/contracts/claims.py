"""What is promised of a subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.guarantees import Guarantee
from ..core.proper import proper
from ..judging.tolerance import Tolerance

if TYPE_CHECKING:
    from ..judging.exercised import Activity


@dataclass(frozen=True)
class Claim:
    """What a subject promises, and under which conditions (the table in the scheme's docstring says why)."""

    guarantee: Guarantee
    tolerates: Tolerance = Tolerance.ANY
    """How many failures at once it holds for."""
    needs: str = ""
    """What else has to be as the scheme assumes it, in words."""
    rests_on: tuple[Activity, ...] | None = None
    """What has to have been at work for the claim to be tried at all; None: whatever is switched on."""

    def __post_init__(self) -> None:
        proper(self.guarantee, Guarantee, "what is claimed", "a Guarantee, as exactly_once() makes one")
        proper(self.tolerates, Tolerance, "what a claim tolerates", "a Tolerance")
