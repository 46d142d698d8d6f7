"""What is said of an error of the user's code, out of all that Spark says of it."""

from __future__ import annotations

import errno

import pytest

from streamproof import Query
from streamproof.harness.core.errors import OwnFailure
from streamproof.harness.worlds.spark.queries.blaming import blame, shortened_error

IN_A_TASK = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.failJob(DAGScheduler.scala:1)
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/work/my_sinks.py", line 7, in add
    raise ValueError("no")
ValueError: no
"""
BEFORE_ITS_FIRST_TASK = """\
Job aborted due to stage failure: Lost task 0.0 in stage 0.0 (TID 1):
Error from python worker:
  Traceback (most recent call last):
    File "/work/my_daemon.py", line 14, in <module>
      import my_package
  ModuleNotFoundError: No module named 'my_package'
PYTHONPATH was:
  /opt/spark/python
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:1)
"""
IN_THE_JVM = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Return Message: Traceback (most recent call last):
  File "/opt/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/work/my_sinks.py", line 25, in write
    found.count()
  File "/opt/pyspark/sql/classic/dataframe.py", line 500, in count
    return int(self._jdf.count())
  File "/opt/py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o83.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: no database
\tat org.apache.spark.scheduler.DAGScheduler.failJob(DAGScheduler.scala:1)
Caused by: java.sql.SQLException: no database
\t... 1 more
Caused by: ERROR XSDB6: Another instance may have booted it
\t... 2 more
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (IN_A_TASK, "ValueError: no (/work/my_sinks.py, line 7)"),
        (BEFORE_ITS_FIRST_TASK, "ModuleNotFoundError: No module named 'my_package' (/work/my_daemon.py, line 14)"),
        (
            IN_THE_JVM,
            "py4j.protocol.Py4JJavaError: An error occurred while calling o83.count. org.apache.spark.SparkException: "
            "Job aborted due to stage failure: no database Caused by: ERROR XSDB6: Another instance may have booted it "
            "(/work/my_sinks.py, line 25)",
        ),
    ],
)
def test_an_error_is_what_was_raised_and_where(text: str, said: str) -> None:
    assert shortened_error(text) == said


def test_what_the_file_system_of_a_run_has_not_is_said_where_a_query_fails_by_it() -> None:
    query = Query(lambda frame: frame, name="mine")
    refused = OSError(errno.EOPNOTSUPP, "Operation not supported", "/work/worker-0/mounted/sink")
    assert "no files without a name (O_TMPFILE)" in str(blame(query, refused))
    too_large = OSError(errno.EFBIG, "File too large")
    assert "a file has 1 GiB at most" in str(blame(query, too_large))
    elsewhere = OSError(errno.EOPNOTSUPP, "Operation not supported", "/mnt/share")
    assert "O_TMPFILE" not in str(blame(query, elsewhere))
    assert "1 GiB" not in str(blame(query, elsewhere))


@pytest.mark.parametrize("sign", ["ExecutorLostFailure (executor 1 exited)", "Python worker failed to connect back."])
def test_what_a_query_runs_in_is_to_blame_for_what_it_lost(sign: str) -> None:
    query = Query(lambda frame: frame, name="mine")
    error = blame(query, RuntimeError(f"Job aborted due to stage failure: Lost task 0.0 in stage 0.0 (TID 1): {sign}"))
    assert isinstance(error, OwnFailure)
    assert "was ended by its surroundings" in str(error)
