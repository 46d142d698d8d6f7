"""A process that is stuck in the user's code says where, when it is asked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from streamproof.harness.core.waiting import wait_until
from streamproof.harness.worlds.spark.queries.stacks import still_running, users_frames

STUCK = """
import sys, time
from pathlib import Path
from streamproof.harness.worlds.spark.queries.stacks import answer_with_stacks

def waits(lock):
    time.sleep(lock)

def write(rows):
    waits(600)

answer_with_stacks(Path(sys.argv[1]))
Path(sys.argv[1]).touch()
write([])
"""


def test_the_innermost_place_in_the_users_code_is_told_with_who_called_it(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    plan = tmp_path / "driver.1.pickle"
    process = subprocess.Popen([sys.executable, "-m", "stuck", str(plan)], cwd=tmp_path)
    try:
        wait_until(lambda: plan.exists(), 60, "the process to be stuck")

        def told() -> str:
            return still_running(plan, process.pid, 90.2)

        said = wait_until(lambda: found if "waits" in (found := told()) else "", 30, "its stack")
        file = re.escape(str(tmp_path / "stuck.py"))
        assert re.match(
            f"; without a sign of work for 90 s, still running: waits \\({file}, line 7\\), called by write \\({file}, "
            f"line 10\\), called by <module>",
            said,
        )
    finally:
        process.kill()
        process.wait()


def test_who_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    assert still_running(tmp_path / "plan.pickle", None, 1.0) == ""
    assert still_running(tmp_path / "plan.pickle", 2**22 + 1, 1.0) == ""


def test_what_python_spark_and_the_harness_run_is_no_code_of_the_users() -> None:
    dumped = (
        'Thread 0x1 (most recent call first):\n  File "/v/lib/site-packages/py4j/clientserver.py", line 5 in run\n'
        f'  File "{threading_file()}", line 7 in run\n\n'
        'Thread 0x2 (most recent call first):\n  File "/v/lib/site-packages/pyspark/sql/utils.py", line 1 in call\n'
        '  File "/home/me/sink.py", line 3 in write\n'
    )
    assert list(users_frames(dumped)) == ["write (/home/me/sink.py, line 3)"]


def threading_file() -> str:
    import threading

    return threading.__file__
