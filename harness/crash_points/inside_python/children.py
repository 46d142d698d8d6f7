"""The processes that this one has started and not waited for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from multiprocessing import resource_tracker


def children() -> Mapping[int, str]:
    """Of each child of this process that is there, or has ended and was not waited for, its number and the name of its
    program; but for the one by which `multiprocessing` cleans up, for which nobody waits."""
    mine, tracker = str(os.getpid()), getattr(resource_tracker._resource_tracker, "_pid", None)
    found: dict[int, str] = {}
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat", errors="replace") as file:
                told = file.read()
        except OSError:
            # It has gone since it was listed.
            continue
        # The name is in brackets, and can hold any.
        name, _, rest = told.partition("(")[2].rpartition(")")
        if rest.split()[1] == mine and int(number) != tracker:
            found[int(number)] = name
    return found
