"""Where Spark has its crash points: everything in this package that depends on Spark's version.

A `Hook` says which method is the place, and how the batch and the rest of the key are read there, in Byteman's language
(Java expressions, with $0 for the receiver and $1 ... for the arguments). Callees are hooked, not Scala's closures,
whose names change with every compilation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ...core.addresses import Point
from ...core.errors import InvalidScenario, Unsupported
from ...install.settings import DAEMON_MODULE, READER_MODULE


@dataclass(frozen=True)
class Hook:
    """One method of Spark, or of whatever implements one of its interfaces, as a crash point."""

    point: Point
    place: str
    """What Byteman says of the class: `CLASS name`, `INTERFACE name`; `^` before a name includes what overrides."""
    method: str
    key: str
    """An expression that gives the key as a String; null where there is nothing to announce."""
    bindings: tuple[str, ...] = ()
    """`name:type = expression`, for the key and the condition."""
    condition: str = "true"
    before: str = "AT ENTRY"
    after: str = "AT EXIT"
    """Empty where only what is before is a point."""
    overridden: bool = False
    """Whether one such method may call another, of its superclass or of what it wraps: the outermost counts."""


@dataclass(frozen=True)
class NamedModule:
    """A method of Spark's that says which Python module a process runs, where no setting does."""

    name: str
    cls: str
    method: str
    ours: str
    """The module that is run in its place."""


_BESIDE_TASKS: Final = (
    NamedModule(
        "daemon of workers beside tasks",
        "org.apache.spark.api.python.PythonWorkerFactory$",
        "defaultDaemonModule()",
        DAEMON_MODULE,
    ),
    NamedModule(
        "worker of a stream's reader",
        "org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner",
        "workerModule()",
        READER_MODULE,
    ),
)
"""In the first, Python data sources are made, plan and commit; in the second, they say how far a stream goes."""


@dataclass(frozen=True)
class SparkVersion:
    number: str
    """Its first two parts: what comes after them changes no names."""
    tried: str
    """The release of these with which the rules were tried."""
    start: tuple[str, str]
    """Class and method that every JVM of Spark, driver and executor, calls before any point can be reached."""
    hooks: tuple[Hook, ...]
    source_in_java: bool = False
    """Whether the harness's source is the one in Java, which says nothing itself: its points are among the hooks."""
    lacks: tuple[str, ...] = ()
    """What a query cannot do on it, that it can on the newest."""
    drops_dead_workers: bool = True
    """Whether Spark looks whether a Python worker lives before it is used again (SPARK-47565, in 4.0). Else the next
    task that is given to one that has died while it was idle fails."""
    named: tuple[NamedModule, ...] = _BESIDE_TASKS
    """Modules in which Spark runs the user's Python code beside its tasks."""


_STREAMING: Final = "org.apache.spark.sql.execution.streaming"
_BATCH: Final = '"streaming.sql.batchId"'

_TASK: Final = (
    "task:org.apache.spark.TaskContext = org.apache.spark.TaskContext.get()",
    f"batch:String = (task == null ? null : task.getLocalProperty({_BATCH}))",
)
"""The batch of the task that this thread runs; null in other threads, and in tasks that are of no batch."""

_JOB: Final = (
    "active:scala.Option = org.apache.spark.SparkContext$.MODULE$.getActive()",
    "found:Object = (active.isEmpty() ? null : active.get())",
    "context:org.apache.spark.SparkContext = found",
    f"batch:String = (context == null ? null : context.getLocalProperty({_BATCH}))",
)
"""The batch of the query whose thread this is, in the driver."""

_TASK_KEY: Final = '(batch == null ? null : batch + "/" + task.partitionId())'

# From the last folder that Spark makes in a checkpoint or a file sink; a file at the top has its name alone, since what
# the user calls the checkpoint's folder is no part of an identity. Nor are the unique numbers in names of files.
_INSIDE: Final = "((offsets|commits|_spark_metadata)/[^/]+|(sources|state)/[0-9]+/.+)"
_UNIQUE: Final = "_?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_WITHIN: Final = (
    "whole:String = $0.finalPath.toString()",
    f'path:String = (whole.matches(".*/{_INSIDE}") ? whole.replaceAll("^.*/{_INSIDE}$", "$1") : $0.finalPath.getName())'
    f'.replaceAll("{_UNIQUE}", "")',
    'number:String = $0.finalPath.getName().replaceAll("^([0-9]*).*$", "$1")',
)
STATE_OF_TASKS: Final = re.compile("/state/[0-9]+/[0-9]+/[^_]")
"""In the key of a file that is given its name: that of a partition of the state, which a task does. The rest, such as
the schema that lies beside the first partition, is the driver's."""
# The logs' files, and the state's schemas, are called by their batch; the state's own files by the version that the
# batch makes, which is one more.
_RENAME_BATCH: Final = (
    "batch:String = "
    '(path.matches("((offsets|commits|_spark_metadata)|state/[0-9]+/_.*)/[0-9]+[^/]*") ? number : '
    '(path.matches("state/[0-9]+/[0-9]+/(.*/)?[0-9]+[._][^/]*") ? String.valueOf(Long.parseLong(number) - 1) : "?"))',
)


@dataclass(frozen=True)
class _Names:
    """What versions call differently."""

    logs: str = f"{_STREAMING}.checkpointing"
    """The package of the metadata's logs, and of what names their files."""
    execution: str = f"{_STREAMING}.runtime"
    """That of the execution, and of the logs of files."""
    sinks: str = f"{_STREAMING}.sinks"
    seq: str = "scala.collection.immutable.Seq"
    """What Scala means by Seq."""
    cleaned_batch: str = "$1.batchId()"
    """The batch with which `cleanUpLastExecutedMicroBatch` is called."""
    succeeded: str = "!$0.isFailed()"
    """Whether no failure was noted in a task's context; there is no such method before 3.5.1."""


def _log(names: _Names, point: Point, cls: str) -> Hook:
    return Hook(
        point,
        # Its subclasses do not override the method: a rule on those would never fire.
        f"CLASS {names.logs}.HDFSMetadataLog",
        "addNewBatchByStream(long, scala.Function1)",
        key="String.valueOf($1)",
        condition=f"$0 instanceof {names.logs}.{cls}",
    )


def _file_log(names: _Names, point: Point, cls: str) -> Hook:
    return Hook(
        point,
        f"CLASS {names.execution}.CompactibleFileStreamLog",
        "add(long, Object[])",
        key="String.valueOf($1)",
        condition=f"$0 instanceof {cls}",
    )


def _source(point: Point, method: str, after: str = "") -> Hook:
    return Hook(point, "CLASS streamproof.EventSource$Stream", f"{method}(long)", key="String.valueOf($1)", after=after)


_SOURCE_IN_JAVA: Final = (
    _source(Point.SOURCE_LATEST, "beginLatest"),
    _source(Point.SOURCE_PARTITIONS, "beginPartitions"),
    _source(Point.SOURCE_COMMIT, "beginCommit", after="AT EXIT"),
)


def own_hook(name: str, method: str) -> Hook:
    """A crash point of the user's in Java or Scala code: `com.acme.Upload.finish`, the overriding methods included.

    Its key is that of `crash_point`. Raises InvalidScenario for what names no method.
    """
    cls, _, called = method.rpartition(".")
    if not re.fullmatch(r"([A-Za-z_]\w*\.)*[A-Za-z_][\w$]*", cls) or not re.fullmatch(r"[A-Za-z_][\w$]*", called):
        raise InvalidScenario(f"{method!r} names no method of a class; one looks like com.acme.Upload.finish")
    if not re.fullmatch(r"[\w.-]+", name):
        raise InvalidScenario(f"the crash point {name!r} of {method}: a name has letters, digits, '-', '_' and '.'")
    return Hook(
        Point.USER,
        f"CLASS ^{cls}",
        called,
        key=f'(task == null ? "driver:" : "task:") + (batch == null ? "?" : batch) + "/{name}"',
        bindings=_TASK,
        overridden=True,
    )


def _hooks(names: _Names) -> tuple[Hook, ...]:
    return (
        _log(names, Point.OFFSET_LOG, "OffsetSeqLog"),
        _log(names, Point.COMMIT_LOG, "CommitLog"),
        Hook(
            Point.ADD_BATCH,
            f"INTERFACE ^{_STREAMING}.Sink",
            "addBatch(long, org.apache.spark.sql.Dataset)",
            key="String.valueOf($1)",
            overridden=True,
        ),
        Hook(
            Point.STREAM_COMMIT,
            "INTERFACE ^org.apache.spark.sql.connector.write.streaming.StreamingWrite",
            "commit(long, org.apache.spark.sql.connector.write.WriterCommitMessage[])",
            key="String.valueOf($1)",
            overridden=True,
        ),
        _file_log(names, Point.SINK_LOG, f"{names.sinks}.FileStreamSinkLog"),
        _file_log(names, Point.SOURCE_LOG, f"{names.execution}.FileStreamSourceLog"),
        Hook(
            Point.JOB_COMMIT,
            "CLASS ^org.apache.spark.internal.io.FileCommitProtocol",
            f"commitJob(org.apache.hadoop.mapreduce.JobContext, {names.seq})",
            key="batch",
            bindings=_JOB,
            overridden=True,
        ),
        Hook(
            Point.CLEANUP,
            f"CLASS {names.execution}.MicroBatchExecution",
            "cleanUpLastExecutedMicroBatch",
            key=f"String.valueOf({names.cleaned_batch})",
        ),
        Hook(
            Point.RENAME,
            f"CLASS {names.logs}.CheckpointFileManager$RenameBasedFSDataOutputStream",
            "close()",
            key='batch + "/" + path',
            bindings=(*_WITHIN, *_RENAME_BATCH),
            # The method may be called again, and does nothing then.
            before="AT INVOKE renameTempFile",
            after="AFTER INVOKE renameTempFile",
        ),
        Hook(
            Point.WRITER_COMMIT,
            "INTERFACE ^org.apache.spark.sql.connector.write.DataWriter",
            "commit()",
            key=_TASK_KEY,
            bindings=_TASK,
            overridden=True,
        ),
        Hook(
            Point.TASK_COMMIT,
            "CLASS ^org.apache.spark.internal.io.FileCommitProtocol",
            "commitTask(org.apache.hadoop.mapreduce.TaskAttemptContext)",
            key=_TASK_KEY,
            bindings=_TASK,
            overridden=True,
        ),
        Hook(
            Point.STATE_COMMIT,
            f"INTERFACE ^{_STREAMING}.state.StateStore",
            "commit()",
            key="(batch == null ? null : "
            'batch + "/" + id.partitionId() + "/" + id.operatorId() + "/" + id.storeName())',
            bindings=(*_TASK, f"id:{_STREAMING}.state.StateStoreId = $0.id()"),
            overridden=True,
        ),
        Hook(
            Point.TASK_END,
            "CLASS org.apache.spark.TaskContextImpl",
            "markTaskCompleted(scala.Option)",
            key='(batch == null ? null : batch + "/" + $0.stageId() + "/" + $0.partitionId())',
            bindings=(f"batch:String = $0.getLocalProperty({_BATCH})",),
            # Called for a task that failed, too.
            condition=names.succeeded,
        ),
    )


_START: Final = ("org.apache.spark.SparkEnv$", "set(org.apache.spark.SparkEnv)")
_FLAT: Final = _Names(logs=_STREAMING, execution=_STREAMING, sinks=_STREAMING)
"""Before 4.1, all is in one package."""
_SCALA_2_12: Final = replace(
    _FLAT,
    seq="scala.collection.Seq",
    cleaned_batch="$0.currentBatchId()",
    succeeded="$0.failureCauseOpt.isEmpty()",
)
_NO_CLEANUP: Final = tuple(hook for hook in _hooks(_SCALA_2_12) if hook.point is not Point.CLEANUP)
"""In 3.3 that is no method of its own, but a part of the one that plans the next batch."""
_3_3: Final = SparkVersion(
    "3.3",
    "3.3.2",
    _START,
    (*_NO_CLEANUP, *_SOURCE_IN_JAVA),
    source_in_java=True,
    lacks=(
        "applyInPandasWithState",
        "data sources and sinks in Python (DataSource)",
        "functions in Python that Spark's workers run (its pyspark cannot send those of Python 3.11)",
        "transformWithState",
        "transformWithStateInPandas",
    ),
    drops_dead_workers=False,
    named=(),
)
_3_4: Final = SparkVersion(
    "3.4",
    "3.4.0",
    _START,
    (*_hooks(_SCALA_2_12), *_SOURCE_IN_JAVA),
    source_in_java=True,
    lacks=("data sources and sinks in Python (DataSource)", "transformWithState", "transformWithStateInPandas"),
    drops_dead_workers=False,
    named=(),
)
_3_5: Final = replace(_3_4, number="3.5", tried="3.5.9")
_4_0: Final = SparkVersion(
    "4.0", "4.0.4", _START, (*_hooks(_FLAT), *_SOURCE_IN_JAVA), source_in_java=True, lacks=("transformWithState",)
)
_4_1: Final = SparkVersion("4.1", "4.1.3", _START, (*_hooks(_Names()), *_SOURCE_IN_JAVA), source_in_java=True)
_4_2: Final = SparkVersion("4.2", "4.2.0", _START, _hooks(_Names()))
_4_3: Final = SparkVersion("4.3", "4.3.0", _START, _hooks(_Names()))

SUPPORTED: Final[Mapping[str, SparkVersion]] = MappingProxyType(
    {one.number: one for one in (_3_3, _3_4, _3_5, _4_0, _4_1, _4_2, _4_3)}
)


EVERY_BATCH: Final = frozenset({Point.OFFSET_LOG, Point.COMMIT_LOG})
"""What Spark passes in each batch of any query, whatever its source, steps and sink: where nothing does, it is the rule
that does not work."""


def supported(version: str) -> SparkVersion:
    """What is known of Spark `version`, as `pyspark.__version__` says it. Raises Unsupported."""
    found = SUPPORTED.get(".".join(version.split(".")[:2]))
    if found is None:
        known = ", ".join(sorted(SUPPORTED))
        raise Unsupported(
            f"crash points inside Spark {version!r} are not known, only those of Spark {known}: name one of these, as "
            f"in spark='{max(SUPPORTED)}.0'"
        )
    return found
