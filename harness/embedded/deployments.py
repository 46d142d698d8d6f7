"""What deployments on embedded Spark have in common, whatever the subject is."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle

from ..errors import InvalidOperator, ProcessDied, StreamproofError
from .log_tails import log_tail
from .nodes import Driver, Nodes
from .private_files import write_private
from .run_server import RunServer

_one_at_a_time = threading.Lock()
"""What goes by value is a list of cloudpickle's, the same for all threads."""


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
    return write_private(path, pickled(plan, what, _modules_only_here()))


def pickled(plan: object, what: str, by_value: Sequence[ModuleType]) -> bytes:
    """A plan, with the code in it that comes from these modules. Raises InvalidOperator when it cannot be pickled."""
    with _one_at_a_time:
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            body: bytes = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise InvalidOperator(f"{what} cannot be sent to Spark: {type(error).__name__}: {error}") from error
        finally:
            for module in by_value:
                cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return body


def modules_of_the_user() -> list[ModuleType]:
    """The modules of this process that no package has installed: other machines do not have them."""
    installed = {os.path.realpath(path) for path in (*sysconfig.get_paths().values(), *site.getsitepackages())}
    ours = __name__.partition(".")[0]
    return [
        module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and name.partition(".")[0] != ours
        and not any(os.path.realpath(file).startswith(folder + os.sep) for folder in installed)
    ]


def _modules_only_here() -> list[ModuleType]:
    """The modules of this process that another with the same import path would not find."""
    loaded = {name: module for name, module in list(sys.modules.items()) if getattr(module, "__file__", None)}
    tops = {name.partition(".")[0] for name in loaded}
    missing = {top for top in tops if not any(finder.find_spec(top, None) for finder in sys.meta_path)}
    # One module can go by two names, as `__main__` does in a process that multiprocessing has started.
    found = {id(module): module for name, module in loaded.items() if name.partition(".")[0] in missing}
    return list(found.values())
