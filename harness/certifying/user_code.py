"""Where in the user's code an effect came about: between which of its lines a file was written, or a message sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..core.addresses import Address, CodeLine, Point, Side
from .attempts import Passed

_WITHIN: Final = frozenset({Point.FILE, Point.MESSAGE})
PassedPlace = tuple[Address, int]
_INTO_THE_JVM: Final = (
    "py4j.java_gateway.JVMView.",
    "py4j.java_gateway.JavaMember.",
    "py4j.java_gateway.JavaClass.",
    "py4j.java_collections.",
)
"""What in Python names a class of the JVM's, or calls something of its: a class, an object (`sc._jsc`), a map. What
forgets an object, whenever Python comes to that, is none of it."""
_OF_THE_CONTEXT: Final = frozenset(
    {
        "RDD.id",
        "RDD.toDebugString",
        "SparkContext.addArchive",
        "SparkContext.addFile",
        "SparkContext.addPyFile",
        "SparkContext.setCheckpointDir",
        "SparkContext.setSystemProperty",
        "StatusTracker.getJobIdsForGroup",
        "StatusTracker.getJobInfo",
        "StatusTracker.getStageInfo",
    }
)
"""What of pyspark's own keeps something in the JVM, or asks what is kept or counted there, beside all sessions."""


def goes_into_the_jvm(passed: Iterable[Passed]) -> bool:
    """Whether the user's code calls classes or objects of Spark's JVM itself, or what of pyspark's does that for it: in
    their memory it can keep what a crash forgets."""
    return any(_keeps_in_the_jvm(line.called) for one in passed if (line := _line(one)) is not None)


def _keeps_in_the_jvm(called: str) -> bool:
    of_spark = called.startswith("pyspark.") and ".".join(called.split(".")[-2:]) in _OF_THE_CONTEXT
    return of_spark or called.startswith(_INTO_THE_JVM)


def places_in_code(passed: Sequence[Passed]) -> Mapping[PassedPlace, str]:
    """Of each effect that an attempt passed between two points in the user's code, of one actor in one batch, where
    that was, in words. What came about before the first of them, or after the last, is Spark's own."""
    found: dict[PassedPlace, str] = {}
    following: dict[tuple[str, str], list[Passed]] = {}
    for one in passed:
        if (line := _line(one)) is not None:
            following.setdefault((one.address.actor, line.batch), []).append(one)
    known: dict[tuple[str, str], Passed] = {}
    for one in passed:
        address = one.address
        if (line := _line(one)) is not None:
            at = address.actor, line.batch
            known[at] = following[at].pop(0)
        elif address.point in _WITHIN:
            at = address.actor, address.key.partition("/")[0]
            if at in known and following[at]:
                found[address, one.again] = _between(known[at], following[at])
    return found


def _between(last: Passed, following: Sequence[Passed]) -> str:
    line = _line(last)
    assert line is not None
    text = f"line {line.line}" + (f" (`{last.text}`)" if last.text else "")
    if not line.called:
        said = f"while {text} is executed"
    elif last.address.side is Side.BEFORE:
        said = f"while {text} calls {line.called}"
    else:
        said = f"after {text} has called {line.called}"
    # The end of a call that is being made says nothing more.
    then = next((one for one in following if _statement(one) not in (None, (line.function, line.line))), None)
    if then is None:
        return f"in {line.function}, {said}"
    after = _line(then)
    assert after is not None
    elsewhere = "" if after.function == line.function else f" of {after.function}"
    return f"in {line.function}, {said}, before line {after.line}{elsewhere}" + (f" (`{then.text}`)" * bool(then.text))


def _line(one: Passed) -> CodeLine | None:
    return CodeLine.of(one.address.key) if one.address.point is Point.LINE else None


def _statement(one: Passed) -> tuple[str, int] | None:
    """Of a point before a line, its function and number; None of any other."""
    line = _line(one)
    return (line.function, line.line) if line is not None and not line.called else None
