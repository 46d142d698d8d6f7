"""Which of the user's functions go by where they run: the machine's name, the process's number, how large the cluster
is; as far as their code says so by names."""

from __future__ import annotations

import os
import platform
import socket
from typing import TYPE_CHECKING, Final

from .names import module_of_code, name_in
from .own_lines import codes_in, own_functions

if TYPE_CHECKING:
    from types import CodeType, FunctionType

    from ...contracts.query import Query

_OF_PROCESSES: Final = frozenset({"getpid", "getppid", "current_process"})
_OF_MACHINES: Final = frozenset({"gethostname", "getfqdn", "gethostbyname", "getnode", "uname", "uuid1"})
_OF_CLUSTERS: Final = frozenset({"defaultParallelism", "getExecutorMemoryStatus"})
_IN_THE_ENVIRONMENT: Final = frozenset({"HOSTNAME", "POD_NAME", "POD_IP", "SPARK_EXECUTOR_POD_NAME", "SPARK_LOCAL_IP"})
_NODE: Final = "node"
"""Of `platform`, and of much else."""


def functions_that_go_by_where_they_run(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. What is called in turn, outside of the user's code, is not looked into."""
    found = set()
    for function in own_functions(query):
        for code in codes_in(function.__code__):
            if _asks(function, code):
                # A comprehension is part of its function.
                own = function.__code__ if code.co_name.startswith("<") else code
                found.add(name_in(module_of_code(function), own))
    return tuple(sorted(found))


def _asks(function: FunctionType, code: CodeType) -> bool:
    names = {*code.co_names}
    if names & (_OF_PROCESSES | _OF_MACHINES | _OF_CLUSTERS) or _IN_THE_ENVIRONMENT & {
        one for one in code.co_consts if isinstance(one, str)
    }:
        return True
    held = [function.__globals__.get(name) for name in names]
    functions = (os.getpid, socket.gethostname, platform.node)
    if any(one is asked for one in held for asked in functions) or (_NODE in names and platform in held):
        return True
    # What its module has asked for, when it was imported.
    here = (socket.gethostname(), os.getpid())
    return any(type(one) is type(said) and one == said for one in held for said in here)
