"""Who is to blame for an error in the driver of a query, and what is said of it."""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from ....contracts.query import Query
from ....core.errors import InvalidOperator, OwnFailure, StreamproofError
from ....crash_points.files.mounts import MOUNTED
from . import source

_SOURCE = os.sep.join(Path(source.__file__).parts[-3:])
_OURS = (
    _SOURCE,
    "ExecutorLostFailure",
    # It is not up yet, as on a busy machine: code of the user's is read afterwards.
    "Python worker failed to connect back",
    "No space left on device",
    "SparkContext was shut down",
)
"""What shows, in an error of Spark's, that the query is not to blame."""


def blame(query: Query, error: Exception) -> StreamproofError:
    """As InvalidOperator; as OwnFailure where what the query runs in is to blame."""
    text = error_text(error)
    sign = next((sign for sign in _OURS if sign in text), None)
    if sign is not None:
        return OwnFailure(f"query {query.name!r} was ended by its surroundings ({sign}): {shortened_error(text)}")
    said = shortened_error(text)
    lacking = "".join(f"; {what}" for sign, what in _LACKING.items() if re.search(sign, said))
    return InvalidOperator(f"query {query.name!r} failed: {said}{lacking}")


_LACKING = {
    rf"\[Errno {errno.EOPNOTSUPP}\].*/{MOUNTED}/": (
        "the folders of this run lie behind streamproof's file system, which has no files without a name (O_TMPFILE) "
        "and no extended attributes but user.*: where they are missing, write a draft and rename it"
    ),
    rf"\[Errno {errno.EFBIG}\]": (
        "where the folders of a run lie behind streamproof's file system, a file has 1 GiB at most, be it empty for "
        "the most part: set the size of a file or a map in advance to less"
    ),
}
"""What the file system of a run lacks, by how an error looks that comes of it."""


_OF_SPARK = re.compile("/(pyspark|py4j)/")
_DRIVER = (str(Path(__file__).with_name("driver.py")), __file__)
"""No code of the user's."""


def error_text(error: BaseException) -> str:
    """Of an error of the user's own in this process, its kind as well: Spark's say theirs themselves."""
    if type(error).__module__.startswith(("pyspark", "py4j")):
        return str(error)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__}: {error}{_where(frames)}"


def _where(frames: Iterable[tuple[str, object]]) -> str:
    """The innermost place in code of the user's."""
    theirs = [(file, line) for file, line in frames if not _OF_SPARK.search(file) and file not in _DRIVER]
    return f" ({theirs[-1][0]}, line {theirs[-1][1]})" if theirs else ""


def shortened_error(text: str, lines: int = 12) -> str:
    """What the user's code raised and where, if a Python traceback says it; else the first lines, without the JVM's
    stack."""
    # What Spark adds of the query's plan says nothing of what went wrong.
    said = text.partition("\n=== Streaming Query ===")[0]
    kept = [line for line in said.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    tracebacks = [place for place, line in enumerate(kept) if "Traceback (most recent call last)" in line]
    last = kept[tracebacks[-1] + 1 :] if tracebacks else []
    # What Spark quotes of a worker that could not begin, it indents.
    margin = _margin(kept[tracebacks[-1]]) if tracebacks else 0
    raised = next((line for line in last if _margin(line) <= margin), None)
    if raised is None:
        return "\n".join(kept[:lines] + (["..."] if len(kept) > lines else []))
    place = last.index(raised)
    frames = (re.match(r'\s+File "(.+)", line (\d+)', line) for line in last[:place])
    return (
        raised.strip()
        + _said_by_the_jvm(last[place + 1 :])
        + _where((frame[1], frame[2]) for frame in frames if frame is not None)
    )


def _said_by_the_jvm(following: Sequence[str]) -> str:
    """Of an error of the JVM's that py4j raises, which says itself no more than what was called: what follows it, and
    what that goes back to."""
    if not following or not following[0].startswith(_OF_THE_JVM):
        return ""
    causes = [line.strip() for line in following if line.lstrip().startswith(_CAUSE)]
    return " ".join([f" {following[0].removeprefix(_OF_THE_JVM)}", *causes[-1:]])


_OF_THE_JVM, _CAUSE = ": ", "Caused by: "


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())
