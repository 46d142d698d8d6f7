"""What deployments on embedded Spark have in common, whatever the subject is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ....core.errors import ProcessDied, StreamproofError
from ....core.pickling import modules_only_here, pickled
from ....install.private_files import write_private
from .log_tails import log_tail
from .nodes import Driver, Nodes
from .run_server import RunServer


def watched(
    condition: Callable[[], bool], server: RunServer, nodes: Nodes, show: Callable[[], None], tend: Callable[[], None]
) -> Callable[[], bool]:
    """The condition, with an eye on what could end the run meanwhile. `tend` looks after the driver."""

    def look() -> bool:
        show()
        failure = server.failure or nodes.failure
        if failure is not None:
            raise failure
        if condition():
            return True
        tend()
        return False

    return look


def ended_by_itself(
    driver: Driver, server: RunServer, for_records: Callable[[str], str] = lambda text: text
) -> StreamproofError:
    """Why a driver is gone that nobody killed: what it said last, else that it died. `for_records` takes out of its log
    what is to be in no record."""
    end = for_records(log_tail(driver.stderr))
    return server.failure or ProcessDied(
        f"the driver ended by itself with status {driver.poll()}; its log {driver.stderr} ends:\n{end}"
    )


def write_plan(path: Path, plan: object, what: str) -> Path:
    """Leave a driver its plan. Raises InvalidOperator when the user's code in it cannot be pickled.

    Code goes by reference where the driver can import it, and along with the plan where only this process has it: a
    test module, a notebook, a script.
    """
    return write_private(path, pickled(plan, what, modules_only_here()))
