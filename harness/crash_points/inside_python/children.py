"""The processes that this one has started and not waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from multiprocessing import resource_tracker


def children() -> Mapping[int, str]:
    """Of each child of this process that is there, or has ended and was not waited for, its number and the name of its
    program; and of each whose parent is gone, which nobody can wait for, and that is of this session. But for the one
    by which `multiprocessing` cleans up, for which nobody waits."""
    mine, session = os.getpid(), os.getsid(0)
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    found = {number: (name, parent, of) for number, name, parent, of in _processes()}
    here = {number for number, (_, _, of) in found.items() if of == session}
    return {
        number: name
        for number, (name, parent, _) in found.items()
        if number not in (mine, tracker) and (parent == mine or (number in here and parent not in here))
    }


def _processes() -> Iterator[tuple[int, str, int, int]]:
    """Number, name of the program, parent and session of each on this machine."""
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat", errors="replace") as file:
                told = file.read()
        except OSError:
            # It has gone since it was listed.
            continue
        # The name is in brackets, and can hold any.
        name, _, rest = told.partition("(")[2].rpartition(")")
        _, parent, _, session, *_ = rest.split()
        yield int(number), name, int(parent), int(session)
