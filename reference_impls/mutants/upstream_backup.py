"""The mutants of upstream backup. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.claims import Claim
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.guarantees import precise_recovery
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.spec import Numbering
from ..mechanisms.acknowledging import AcknowledgeEvery, AcknowledgeOutputs
from ..mechanisms.output_log import OutputLog
from ..upstream_backup import upstream_backup
from . import twists
from .mutant import BrokenScheme, along_with, claiming, numbering, twisting, without

_STATELESS = "stateless.upstream-backup"


def _backup(topology: Topology, every: Events) -> SchemeSubject:
    return upstream_backup(topology, acknowledge_every=every)


def _masked_backup(topology: Topology, every: Events) -> SchemeSubject:
    return upstream_backup(topology, acknowledge_every=every, sink_filter=True)


_PRECISE = Claim(precise_recovery())

MUTANTS = (
    BrokenScheme(
        "upstream-backup-acknowledging-what-was-taken",
        "an input is acknowledged when all that was made of it has been",
        Anomaly.LOST_INPUT,
        along_with(without(_backup, AcknowledgeOutputs), AcknowledgeEvery(Events(1))),
        on=_STATELESS,
    ),
    BrokenScheme(
        "upstream-backup-acknowledging-what-is-in-the-window",
        "an input is acknowledged when it has left the window",
        Anomaly.LOST_INPUT,
        twisting(_backup, twists.acknowledges_what_is_in_the_window),
        on="windows.upstream-backup",
    ),
    BrokenScheme(
        "upstream-backup-without-output-log",
        "every slice keeps what it emits until it is acknowledged",
        Anomaly.LOST_INPUT,
        without(_backup, OutputLog),
        on=_STATELESS,
    ),
    BrokenScheme(
        "upstream-backup-without-source-log",
        "what is lost with a log is made again, in the end from the source",
        Anomaly.LOST_INPUT,
        without(_backup, OutputLog, Role.SOURCE),
        on=_STATELESS,
    ),
    BrokenScheme(
        "upstream-backup-replaying-one-too-few",
        "a replay is everything that upstream still has",
        Anomaly.LOST_INPUT,
        twisting(_backup, twists.replays_one_too_few, Role.SOURCE, Role.OPERATOR),
        on=_STATELESS,
        without_faults=True,
    ),
    BrokenScheme(
        "upstream-backup-precise-without-sink-filter",
        "without a filter at the sink outputs repeat",
        Anomaly.DUPLICATE_OUTPUT,
        claiming(_backup, _PRECISE),
        on=_STATELESS,
    ),
    BrokenScheme(
        "masked-upstream-backup-numbering-afresh",
        "an output's number follows from its input's, since no counter survives",
        Anomaly.DUPLICATE_OUTPUT,
        numbering(_masked_backup, Numbering.FRESH),
        on=_STATELESS,
    ),
)
