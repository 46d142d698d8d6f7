"""The simulated machines on which little input shows what much would."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..worlds.simulated.options import SimulationOptions

SLOW_SOURCE: Final = SimulationOptions(offer_interval=3_000, obeys_rate=False)
"""So slow a source, in such small batches, that recoveries are over while there is still input to come."""
SPREAD: Final = replace(SLOW_SOURCE, nodes=6, link_delay=(100, 12_000))
SLOW_REPLAY: Final = replace(SLOW_SOURCE, turn=1_500, step_limit=200_000)
"""A replay of a few batches takes so long that new ones come in between, as when a log is long. Tens of events take
some thousand steps: what takes so many more does not come to rest.
"""
