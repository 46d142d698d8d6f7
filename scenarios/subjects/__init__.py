"""The subjects that certificates are tried on, each with the verdict that it must come to. None knows of the harness
more than any query would that is handed to it.

Each query can be had by its name: `streamproof certify streamproof.scenarios.subjects:file_sink`.
"""

from __future__ import annotations

from ...harness.certifying.plan import Victim
from ...harness.core.addresses import Point, Side
from ...harness.core.errors import UnknownName
from ...harness.core.guarantees import at_least_once, at_most_once, exactly_once
from ...harness.core.library import listed_by
from ...harness.core.result_bounds import bounded_error_of_result
from ...harness.core.verdicts import Anomaly, Status
from .batches import acknowledges_early, batch_id_first, blind_append, remembers_in_memory, sqlite_by_batch
from .counting import counts_by_processor, counts_in_pandas
from .files import file_sink, file_sink_by_listing
from .impure import asks_the_clock, counts_in_global, draws_at_random, writes_outside
from .inputs import ad_events, some_words, visits
from .lossy import loses_its_tail
from .rows import foreach_rows
from .stuck import fails_at_its_draft, waits_for_its_lock
from .table import Shows, SubjectLine, shows
from .timed import deduplication, session_windows, stream_join

__all__ = [
    "SUBJECTS",
    "Shows",
    "SubjectLine",
    "acknowledges_early",
    "asks_the_clock",
    "batch_id_first",
    "blind_append",
    "counts_by_processor",
    "counts_in_global",
    "counts_in_pandas",
    "deduplication",
    "draws_at_random",
    "fails_at_its_draft",
    "file_sink",
    "file_sink_by_listing",
    "foreach_rows",
    "loses_its_tail",
    "names",
    "remembers_in_memory",
    "session_windows",
    "sqlite_by_batch",
    "stream_join",
    "subject",
    "waits_for_its_lock",
    "writes_outside",
]

_ONCE = (exactly_once(),)
_AT_LEAST = (at_least_once(),)
_AT_MOST = (at_most_once(),)
# A foreachBatch function that reads the rows of its batch does so in a job of its own.
_WHILE_IT_READS = (
    *shows(Victim.DRIVER, Side.BEFORE, Point.SOURCE_READ, Point.TASK_END),
    *shows(Victim.DRIVER, Side.AFTER, Point.TASK_END),
)

SUBJECTS: tuple[SubjectLine, ...] = (
    SubjectLine(file_sink, some_words(), _ONCE, Status.HOLDS),
    SubjectLine(
        file_sink_by_listing,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
        (
            *shows(Victim.DRIVER, Side.BEFORE, Point.SINK_LOG, Point.JOB_COMMIT),
            *shows(Victim.EXECUTOR, Side.AFTER, Point.TASK_COMMIT),
        ),
        holds=_AT_LEAST,
    ),
    SubjectLine(
        blind_append,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
        (*shows(Victim.DRIVER, Side.AFTER, Point.ADD_BATCH), *shows(Victim.DRIVER, Side.BEFORE, Point.COMMIT_LOG)),
        holds=_AT_LEAST,
    ),
    SubjectLine(sqlite_by_batch, some_words(), _ONCE, Status.HOLDS),
    SubjectLine(
        batch_id_first,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.LOST_INPUT,
        # That job begins when the id is there.
        _WHILE_IT_READS,
        holds=_AT_MOST,
    ),
    SubjectLine(foreach_rows, some_words(), _AT_LEAST, Status.HOLDS),
    SubjectLine(counts_by_processor, some_words(), _ONCE, Status.HOLDS),
    SubjectLine(counts_in_pandas, some_words(), _ONCE, Status.HOLDS),
    SubjectLine(deduplication, visits(), _ONCE, Status.HOLDS),
    SubjectLine(stream_join, ad_events(), _ONCE, Status.HOLDS),
    SubjectLine(session_windows, visits(), _ONCE, Status.HOLDS),
    SubjectLine(
        counts_in_global,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.WRONG_VALUE,
        (
            *shows(Victim.PYTHON, Side.BEFORE, Point.TASK_END),
            *shows(Victim.EXECUTOR, Side.BEFORE, Point.TASK_END),
            *shows(Victim.DRIVER, Side.AFTER, Point.OFFSET_LOG),
        ),
    ),
    SubjectLine(asks_the_clock, some_words(), _ONCE, Status.UNKNOWN, recovers=Status.UNKNOWN),
    SubjectLine(draws_at_random, some_words(), _ONCE, Status.UNKNOWN, recovers=Status.UNKNOWN),
    SubjectLine(
        writes_outside,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
        (
            *shows(Victim.EXECUTOR, Side.BEFORE, Point.TASK_COMMIT),
            *shows(Victim.DRIVER, Side.BEFORE, Point.SINK_LOG),
        ),
        holds=_AT_LEAST,
    ),
    SubjectLine(
        acknowledges_early,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.LOST_INPUT,
        (
            *shows(Victim.DRIVER, Side.AFTER, Point.COMMIT_LOG, Point.OFFSET_LOG),
            *shows(Victim.NODE, Side.AFTER, Point.COMMIT_LOG),
        ),
        holds=_AT_MOST,
    ),
    SubjectLine(
        loses_its_tail,
        some_words(),
        (bounded_error_of_result(rows=10),),
        Status.VIOLATED,
        Anomaly.BOUND_EXCEEDED,
        (
            *shows(Victim.DRIVER, Side.AFTER, Point.COMMIT_LOG, Point.OFFSET_LOG),
            *shows(Victim.NODE, Side.AFTER, Point.COMMIT_LOG),
        ),
        holds=(bounded_error_of_result(rows=50),),
    ),
    SubjectLine(
        remembers_in_memory,
        some_words(),
        _ONCE,
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
        (*shows(Victim.DRIVER, Side.AFTER, Point.ADD_BATCH), *shows(Victim.DRIVER, Side.BEFORE, Point.COMMIT_LOG)),
        holds=_AT_LEAST,
    ),
    SubjectLine(
        waits_for_its_lock,
        some_words(),
        _ONCE,
        Status.UNKNOWN,
        Anomaly.STALL,
        _WHILE_IT_READS,
        recovers=Status.VIOLATED,
    ),
    SubjectLine(
        fails_at_its_draft,
        some_words(),
        _ONCE,
        Status.UNKNOWN,
        Anomaly.CRASH_LOOP,
        _WHILE_IT_READS,
        recovers=Status.VIOLATED,
    ),
)


def names() -> list[str]:
    """Of all subjects, in the table's order."""
    return [one.name for one in SUBJECTS]


def subject(name: str) -> SubjectLine:
    """Raises UnknownName."""
    for one in SUBJECTS:
        if one.name == name:
            return one
    raise UnknownName("subject", name, names(), listed_by("subjects"))
