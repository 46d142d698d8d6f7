"""Which of the user's functions go by where they run: the machine's name, the process's number, how large the cluster
is; as far as their code says so by names."""

from __future__ import annotations

import linecache
import os
import platform
import socket
from typing import TYPE_CHECKING, Final

from .own_lines import functions_whose_code

if TYPE_CHECKING:
    from types import CodeType, FunctionType

    from ...contracts.query import Query

_NUMBER: Final = "getpid"
_OF_PROCESSES: Final = frozenset({_NUMBER, "getppid", "current_process"})
_OF_MACHINES: Final = frozenset({"gethostname", "getfqdn", "gethostbyname", "getnode", "uname", "uuid1"})
_OF_CLUSTERS: Final = frozenset({"defaultParallelism", "getExecutorMemoryStatus"})
_IN_THE_ENVIRONMENT: Final = frozenset({"HOSTNAME", "POD_NAME", "POD_IP", "SPARK_EXECUTOR_POD_NAME", "SPARK_LOCAL_IP"})
_NODE: Final = "node"
"""Of `platform`, and of much else."""


def functions_that_go_by_where_they_run(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order. What is called in turn, outside of the user's code, is not looked into."""
    return functions_whose_code(query, _asks)


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
    if socket.gethostname() in [one for one in held if isinstance(one, str)]:
        return True
    # In a container, each constant that is 1 would be the process's number.
    return os.getpid() in [one for one in held if type(one) is int] and _module_says(function, _NUMBER)


def _module_says(function: FunctionType, word: str) -> bool:
    """Not where its source is not at hand."""
    return any(word in line for line in linecache.getlines(function.__code__.co_filename, function.__globals__))
