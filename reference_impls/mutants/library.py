"""The mutants of each scheme. A new one is an entry here."""

from __future__ import annotations

from ...harness.judging.guarantees import precise_recovery
from ...harness.judging.verdicts import Anomaly
from ...harness.model import Role, Topology
from ...harness.quantities import Events, seconds
from ...harness.slices.components import AcknowledgeAt, Numbering, Part
from ...harness.subject import Claim, SchemeSubject
from ..active_replication import active_replication
from ..active_standby import active_standby
from ..amnesia import amnesia
from ..deployed import deployed
from ..gap import gap
from ..k_safe_grouping import k_safe_grouping, unchecked
from ..passive_replication import passive_replication
from ..passive_standby import passive_standby
from ..source_replay import source_replay
from ..upstream_backup import upstream_backup
from . import twists
from .mutant import Mutant, changed, checkpointing, claiming, twisting

STATELESS = "stateless.upstream-backup"
ORDER = "order.active-replication"
FOLLOWED = "stateless.source-replay"
SPLITTERS = "two-splitters.k-safe-grouping"


def _blank(topology: Topology, every: Events) -> SchemeSubject:
    return amnesia(topology)


def _gap(topology: Topology, every: Events) -> SchemeSubject:
    return gap(topology, checkpoint_every=every)


def _repeating(topology: Topology, every: Events) -> SchemeSubject:
    return passive_replication(topology, checkpoint_every=every)


def _masked(topology: Topology, every: Events) -> SchemeSubject:
    return passive_replication(topology, checkpoint_every=every, sink_filter=True)


def _deployed(topology: Topology, every: Events) -> SchemeSubject:
    return deployed(topology, checkpoint_every=every)


def _hot(topology: Topology, every: Events) -> SchemeSubject:
    return passive_standby(topology, hot=True, synchronize_every=every)


def _cold(topology: Topology, every: Events) -> SchemeSubject:
    return passive_standby(topology, hot=False, synchronize_every=every)


def _silent(topology: Topology, every: Events) -> SchemeSubject:
    return active_standby(topology, acknowledge_every=every)


def _active(topology: Topology, every: Events) -> SchemeSubject:
    return active_replication(topology, acknowledge_every=every)


def _k_safe(topology: Topology, every: Events) -> SchemeSubject:
    return k_safe_grouping(topology, acknowledge_every=every)


def _unchecked(topology: Topology, every: Events) -> SchemeSubject:
    return unchecked(topology, acknowledge_every=every)


def _backup(topology: Topology, every: Events) -> SchemeSubject:
    return upstream_backup(topology, acknowledge_every=every)


def _masked_backup(topology: Topology, every: Events) -> SchemeSubject:
    return upstream_backup(topology, acknowledge_every=every, sink_filter=True)


def _followed(topology: Topology, every: Events) -> SchemeSubject:
    return source_replay(topology, timeout=seconds(0.05))


_PRECISE = Claim(precise_recovery())

_AMNESIA = (
    Mutant(
        "amnesia-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        changed(changed(_blank, numbering=Numbering.CONTINUED), Role.OPERATOR, Role.SINK, duplicate_filter=True),
    ),
    Mutant(
        "amnesia-with-a-replaying-source",
        "nobody replays to a slice that does not know what others have of it",
        Anomaly.DUPLICATE_EFFECT,
        changed(_blank, Role.SOURCE, output_log=True),
    ),
    Mutant(
        "amnesia-skipping-its-first-batch",
        "a slice takes whatever comes once it is there again",
        Anomaly.LOST_INPUT,
        twisting(_blank, twists.skips_the_first_batch_after_its_return),
    ),
    Mutant(
        "amnesia-repeating-itself",
        "what is made is sent once",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_blank, twists.repeats_its_first_batch),
    ),
    Mutant(
        "amnesia-swapping-its-outputs",
        "a channel keeps the order in which its events were made",
        Anomaly.REORDERED_OUTPUT,
        twisting(_blank, twists.swaps_outputs),
    ),
    Mutant(
        "amnesia-without-fencing",
        "whoever was replaced is listened to no more",
        Anomaly.DUPLICATE_OUTPUT,
        twisting(_blank, twists.hears_of_no_end, Role.SOURCE, Role.OPERATOR, Role.SINK),
        kinds=("crash", "pause"),
    ),
)

_GAP = (
    Mutant(
        "gap-restoring-nothing",
        "a crash takes back no more than was taken since the last durable checkpoint",
        Anomaly.STATE_ROLLBACK,
        changed(_gap, checkpointing=None),
    ),
    Mutant(
        "gap-without-checkpointed-state",
        "a checkpoint holds the state",
        Anomaly.PHANTOM_OUTPUT,
        checkpointing(_gap, without=Part.STATE),
    ),
    Mutant(
        "gap-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        changed(changed(_gap, numbering=Numbering.CONTINUED), Role.OPERATOR, Role.SINK, duplicate_filter=True),
    ),
    Mutant(
        "gap-replaying-without-vector",
        "nobody replays to a slice that does not know what its state holds",
        Anomaly.DUPLICATE_EFFECT,
        changed(_gap, Role.SOURCE, output_log=True),
    ),
    Mutant(
        "gap-skipping-its-first-batch",
        "a gap ends when the slice is there again",
        Anomaly.LOST_INPUT,
        twisting(_gap, twists.skips_the_first_batch_after_its_return),
    ),
    Mutant(
        "gap-checkpointing-too-rarely",
        "a checkpoint is taken as often as is declared",
        Anomaly.STATE_ROLLBACK,
        checkpointing(_gap, times=4),
    ),
)

_PASSIVE_REPLICATION = (
    Mutant(
        "passive-replication-without-inner-filter",
        "a receiver drops what it has taken already",
        Anomaly.DUPLICATE_EFFECT,
        changed(_repeating, duplicate_filter=False),
    ),
    Mutant(
        "passive-replication-acknowledging-before-durable",
        "upstream trims its log only by what a durable checkpoint covers",
        Anomaly.LOST_INPUT,
        checkpointing(_repeating, acknowledge=AcknowledgeAt.TAKEN),
    ),
    Mutant(
        "passive-replication-without-vector",
        "a checkpoint says what its state has taken from whom, so that no replay is taken twice",
        Anomaly.DUPLICATE_EFFECT,
        checkpointing(_repeating, without=Part.VECTOR),
    ),
    Mutant(
        "passive-replication-without-checkpointed-log",
        "a checkpoint holds the output log, so that neighbours may crash together",
        Anomaly.LOST_INPUT,
        checkpointing(_repeating, without=Part.LOG),
    ),
    Mutant(
        "passive-replication-without-checkpointed-state",
        "a checkpoint holds the state that its timestamp vector speaks of",
        Anomaly.PHANTOM_OUTPUT,
        checkpointing(_repeating, without=Part.STATE),
    ),
    Mutant(
        "passive-replication-without-output-log",
        "every slice keeps what it emits until it is acknowledged",
        Anomaly.LOST_INPUT,
        changed(_repeating, output_log=False),
    ),
    Mutant(
        "passive-replication-without-source-log",
        "the source replays what no durable checkpoint covers",
        Anomaly.LOST_INPUT,
        changed(_repeating, Role.SOURCE, output_log=False),
    ),
    Mutant(
        "passive-replication-numbering-afresh",
        "what is made again carries its old number, so that a filter knows it",
        Anomaly.DUPLICATE_EFFECT,
        changed(_repeating, numbering=Numbering.FRESH),
    ),
    Mutant(
        "passive-replication-replaying-one-too-few",
        "a replay is everything after what the receiver has",
        Anomaly.LOST_INPUT,
        twisting(_repeating, twists.replays_one_too_few, Role.SOURCE, Role.OPERATOR),
        without_faults=True,
    ),
    Mutant(
        "passive-replication-holding-nothing",
        "what is new is held until the replay is over",
        Anomaly.LOST_INPUT,
        twisting(_repeating, twists.takes_what_is_new_before_the_replay_is_over),
    ),
    Mutant(
        "passive-replication-precise-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        claiming(_repeating, _PRECISE),
    ),
    Mutant(
        "masked-passive-replication-numbering-afresh",
        "what is made again carries its old number, so that the sink's filter knows it",
        Anomaly.DUPLICATE_OUTPUT,
        changed(_masked, numbering=Numbering.FRESH),
    ),
    Mutant(
        "passive-replication-taking-as-it-comes",
        "where channels meet, a replay is taken in the order of the first time",
        Anomaly.REORDERED_OUTPUT,
        changed(_masked, merge=None),
        on=ORDER,
    ),
)

_DEPLOYED = (
    Mutant(
        "deployed-taking-over-blank",
        "a promoted spare reads the newest checkpoint",
        Anomaly.LOST_INPUT,
        twisting(_deployed, twists.takes_over_without_the_checkpoint),
    ),
    Mutant(
        "deployed-acknowledging-before-durable",
        "upstream trims its log only by what a durable checkpoint covers",
        Anomaly.LOST_INPUT,
        checkpointing(_deployed, acknowledge=AcknowledgeAt.TAKEN),
    ),
    Mutant(
        "deployed-without-vector",
        "a checkpoint says what its state has taken from whom",
        Anomaly.DUPLICATE_EFFECT,
        checkpointing(_deployed, without=Part.VECTOR),
    ),
    Mutant(
        "deployed-without-checkpointed-log",
        "a checkpoint holds the output log, so that neighbours may crash together",
        Anomaly.LOST_INPUT,
        checkpointing(_deployed, without=Part.LOG),
    ),
    Mutant(
        "deployed-numbering-afresh",
        "what is made again carries its old number",
        Anomaly.DUPLICATE_EFFECT,
        changed(_deployed, numbering=Numbering.FRESH),
    ),
    Mutant(
        "deployed-without-inner-filter",
        "a receiver drops what it has taken already",
        Anomaly.DUPLICATE_EFFECT,
        changed(_deployed, duplicate_filter=False),
    ),
)

_HOT_STANDBY = (
    Mutant(
        "passive-standby-hot-letting-input-pass",
        "the secondary keeps the input that is newer than the state that it holds",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.keeps_nothing_while_it_stands_by),
    ),
    Mutant(
        "passive-standby-hot-without-vector",
        "the secondary knows what is in the state that it holds",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_hot, twists.syncs_without_vector),
    ),
    Mutant(
        "passive-standby-hot-without-log",
        "the secondary holds the primary's output log",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.syncs_without_log),
    ),
    Mutant(
        "passive-standby-hot-without-numbering",
        "the secondary goes on with the primary's numbers",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.syncs_without_numbering),
    ),
    Mutant(
        "passive-standby-hot-without-state",
        "the secondary holds the state that the vector speaks of",
        Anomaly.PHANTOM_OUTPUT,
        twisting(_hot, twists.syncs_without_state),
    ),
    Mutant(
        "passive-standby-hot-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        changed(_hot, Role.SINK, duplicate_filter=False),
    ),
)

_COLD_STANDBY = (
    Mutant(
        "passive-standby-cold-acknowledging-before-it-is-held",
        "upstream trims its log only by what the secondary has",
        Anomaly.LOST_INPUT,
        checkpointing(_cold, acknowledge=AcknowledgeAt.TAKEN),
    ),
    Mutant(
        "passive-standby-cold-without-vector",
        "the secondary knows what is in the state that it holds",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_cold, twists.syncs_without_vector),
    ),
    Mutant(
        "passive-standby-cold-without-log",
        "the secondary holds the primary's output log",
        Anomaly.LOST_INPUT,
        twisting(_cold, twists.syncs_without_log),
    ),
    Mutant(
        "passive-standby-cold-without-numbering",
        "the secondary goes on with the primary's numbers",
        Anomaly.LOST_INPUT,
        twisting(_cold, twists.syncs_without_numbering),
    ),
    Mutant(
        "passive-standby-cold-taking-over-blank",
        "a promoted secondary goes on from the state that it holds",
        Anomaly.LOST_INPUT,
        twisting(_cold, twists.takes_over_without_what_it_holds),
    ),
    Mutant(
        "passive-standby-cold-without-source-log",
        "the source replays what the secondary does not have",
        Anomaly.LOST_INPUT,
        changed(_cold, Role.SOURCE, output_log=False),
    ),
)

_ACTIVE_STANDBY = (
    Mutant(
        "active-standby-without-output-log",
        "the secondary keeps what it makes until receivers have it",
        Anomaly.LOST_INPUT,
        changed(_silent, output_log=False),
        without_faults=True,
    ),
    Mutant(
        "active-standby-keeping-its-log-to-itself",
        "a promoted secondary sends what its log holds",
        Anomaly.LOST_INPUT,
        twisting(_silent, twists.replays_nothing),
        without_faults=True,
    ),
    Mutant(
        "active-standby-joining-blank",
        "a replica that returns gets the state of its fellow before it is in step",
        Anomaly.LOST_INPUT,
        twisting(_silent, twists.joins_without_the_state),
    ),
    Mutant(
        "active-standby-syncing-without-vector",
        "a replica that joins knows what is in the state that it got",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_silent, twists.syncs_without_vector),
        without_faults=True,
    ),
    Mutant(
        "active-standby-numbering-afresh",
        "the secondary makes the same under the same numbers",
        Anomaly.DUPLICATE_EFFECT,
        changed(_silent, numbering=Numbering.FRESH),
    ),
    Mutant(
        "active-standby-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        changed(_silent, Role.SINK, duplicate_filter=False),
    ),
)

_ACTIVE_REPLICATION = (
    Mutant(
        "active-replication-without-inner-filter",
        "a receiver takes the first copy of an event, and no other",
        Anomaly.DUPLICATE_EFFECT,
        changed(_active, duplicate_filter=False),
        without_faults=True,
    ),
    Mutant(
        "active-replication-without-sink-filter",
        "the sink takes the first copy of an output, and no other",
        Anomaly.DUPLICATE_OUTPUT,
        changed(_active, Role.SINK, duplicate_filter=False),
        without_faults=True,
    ),
    Mutant(
        "active-replication-numbering-afresh",
        "replicas make the same under the same numbers",
        Anomaly.DUPLICATE_EFFECT,
        changed(_active, numbering=Numbering.FRESH),
        without_faults=True,
    ),
    Mutant(
        "active-replication-taking-as-it-comes",
        "a deterministic merge gives all replicas the same order",
        Anomaly.LOST_INPUT,
        changed(_active, merge=None),
        on=ORDER,
        without_faults=True,
    ),
    Mutant(
        "active-replication-joining-blank",
        "a replica that returns gets the state of a fellow before it speaks",
        Anomaly.LOST_INPUT,
        twisting(_active, twists.joins_without_the_state),
    ),
    Mutant(
        "active-replication-syncing-without-vector",
        "a replica that joins knows what is in the state that it got",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_active, twists.syncs_without_vector),
        without_faults=True,
    ),
    Mutant(
        "active-replication-syncing-without-numbering",
        "a replica that joins goes on with its fellow's numbers",
        Anomaly.LOST_INPUT,
        twisting(_active, twists.syncs_without_numbering),
        without_faults=True,
    ),
)

_K_SAFE_GROUPING = (
    Mutant(
        "k-safe-grouping-without-inner-filter",
        "a receiver drops by a high-water mark for each source and primary",
        Anomaly.DUPLICATE_EFFECT,
        changed(_k_safe, duplicate_filter=False),
        without_faults=True,
    ),
    Mutant(
        "k-safe-grouping-without-sink-filter",
        "whoever takes the output drops by a high-water mark too",
        Anomaly.DUPLICATE_OUTPUT,
        changed(_k_safe, Role.SINK, duplicate_filter=False),
        without_faults=True,
    ),
    Mutant(
        "k-safe-grouping-numbering-afresh",
        "a tuple keeps the number that it had at its source",
        Anomaly.DUPLICATE_EFFECT,
        changed(_k_safe, numbering=Numbering.FRESH),
        without_faults=True,
    ),
    Mutant(
        "k-safe-grouping-emitting-before-it-is-in-step",
        "a worker that returns emits only when it has the state of its group",
        Anomaly.LOST_INPUT,
        twisting(_k_safe, twists.joins_without_the_state),
    ),
    Mutant(
        "k-safe-grouping-syncing-without-vector",
        "a worker that returns knows what is in the state that it got",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_k_safe, twists.syncs_without_vector),
        without_faults=True,
    ),
    Mutant(
        "k-safe-grouping-where-splitters-merge",
        "the numbers rise on every way from a source through a primary",
        Anomaly.LOST_INPUT,
        _unchecked,
        on=SPLITTERS,
        without_faults=True,
    ),
)

_UPSTREAM_BACKUP = (
    Mutant(
        "upstream-backup-acknowledging-what-was-taken",
        "an input is acknowledged when all that was made of it has been",
        Anomaly.LOST_INPUT,
        changed(_backup, acknowledge_outputs=False, acknowledge_every=Events(1)),
        on=STATELESS,
    ),
    Mutant(
        "upstream-backup-without-output-log",
        "every slice keeps what it emits until it is acknowledged",
        Anomaly.LOST_INPUT,
        changed(_backup, output_log=False),
        on=STATELESS,
    ),
    Mutant(
        "upstream-backup-without-source-log",
        "what is lost with a log is made again, in the end from the source",
        Anomaly.LOST_INPUT,
        changed(_backup, Role.SOURCE, output_log=False),
        on=STATELESS,
    ),
    Mutant(
        "upstream-backup-replaying-one-too-few",
        "a replay is everything that upstream still has",
        Anomaly.LOST_INPUT,
        twisting(_backup, twists.replays_one_too_few, Role.SOURCE, Role.OPERATOR),
        on=STATELESS,
        without_faults=True,
    ),
    Mutant(
        "upstream-backup-precise-without-sink-filter",
        "without a filter at the sink outputs repeat",
        Anomaly.DUPLICATE_OUTPUT,
        claiming(_backup, _PRECISE),
        on=STATELESS,
    ),
    Mutant(
        "masked-upstream-backup-numbering-afresh",
        "an output's number follows from its input's, since no counter survives",
        Anomaly.DUPLICATE_OUTPUT,
        changed(_masked_backup, numbering=Numbering.FRESH),
        on=STATELESS,
    ),
)

_SOURCE_REPLAY = (
    Mutant(
        "source-replay-following-nothing",
        "an event that is not known to be processed in time is sent again",
        Anomaly.LOST_INPUT,
        changed(changed(_followed, Role.SOURCE, tracking=None), Role.OPERATOR, Role.SINK, anchored=False),
        on=FOLLOWED,
    ),
    Mutant(
        "source-replay-forgetting-what-was-made",
        "an event is processed when all that was made of it is",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.tells_nothing_of_what_it_made),
        on=FOLLOWED,
    ),
    Mutant(
        "source-replay-following-only-the-first-attempt",
        "an event that was sent again is followed again",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.follows_only_the_first_attempt, Role.SOURCE),
        on=FOLLOWED,
    ),
    Mutant(
        "source-replay-telling-before-it-takes",
        "what is told was taken",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.tells_and_does_not_take),
        on=FOLLOWED,
    ),
    Mutant(
        "source-replay-dropping-what-comes-again",
        "nobody filters: an event that is sent again was not processed",
        Anomaly.LOST_INPUT,
        twisting(_followed, twists.drops_and_tells_what_comes_again),
        on=FOLLOWED,
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_AMNESIA,
    *_GAP,
    *_UPSTREAM_BACKUP,
    *_PASSIVE_REPLICATION,
    *_DEPLOYED,
    *_HOT_STANDBY,
    *_COLD_STANDBY,
    *_ACTIVE_STANDBY,
    *_ACTIVE_REPLICATION,
    *_K_SAFE_GROUPING,
    *_SOURCE_REPLAY,
)
