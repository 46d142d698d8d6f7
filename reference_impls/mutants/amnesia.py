"""The mutants of amnesia. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.spec import Numbering
from ..amnesia import amnesia
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.output_log import OutputLog
from . import twists
from .mutant import BrokenScheme, along_with, numbering, twisting


def _blank(topology: Topology, every: Events) -> SchemeSubject:
    return amnesia(topology)


MUTANTS = (
    BrokenScheme(
        "amnesia-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        along_with(numbering(_blank, Numbering.CONTINUED), DuplicateFilter(), Role.OPERATOR, Role.SINK),
    ),
    BrokenScheme(
        "amnesia-with-a-replaying-source",
        "nobody replays to a slice that does not know what others have of it",
        Anomaly.DUPLICATE_EFFECT,
        along_with(_blank, OutputLog(), Role.SOURCE),
    ),
    BrokenScheme(
        "amnesia-skipping-its-first-batch",
        "a slice takes whatever comes once it is there again",
        Anomaly.LOST_INPUT,
        twisting(_blank, twists.skips_the_first_batch_after_its_return),
    ),
    BrokenScheme(
        "amnesia-repeating-itself",
        "what is made is sent once",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_blank, twists.repeats_its_first_batch),
    ),
    BrokenScheme(
        "amnesia-swapping-its-outputs",
        "a channel keeps the order in which its events were made",
        Anomaly.REORDERED_OUTPUT,
        twisting(_blank, twists.swaps_outputs),
    ),
    BrokenScheme(
        "amnesia-without-fencing",
        "whoever was replaced is listened to no more",
        Anomaly.DUPLICATE_OUTPUT,
        twisting(_blank, twists.hears_of_no_end, Role.SOURCE, Role.OPERATOR, Role.SINK),
        kinds=("crash", "pause"),
    ),
)
