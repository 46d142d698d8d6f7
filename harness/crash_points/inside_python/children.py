"""The processes that this one has started and not waited for, and those that they have left behind."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from multiprocessing import resource_tracker
from typing import Final

_SET_CHILD_SUBREAPER: Final = 36
"""`prctl(2)`."""


def children() -> Mapping[int, str]:
    """Of each child of this process that is there, or has ended and was not waited for, its number and the name of its
    program. But for the one by which `multiprocessing` cleans up, for which nobody waits."""
    mine = os.getpid()
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    return {number: name for number, name, parent in _processes() if parent == mine and number != tracker}


def adopt_orphans(wanted: bool) -> None:
    """Whether what a child of this process leaves behind when it ends (a shell's background, a daemon) becomes a child
    of this process, instead of the machine's first, where nobody would know whose it was. Once adopted it stays,
    ended or not, until this process waits for it or ends.

    Raises OSError where the system refuses."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(wanted), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def program_of(process: int) -> str:
    """Of any process of this machine, the name of its program; empty where there is none."""
    return next((name for number, name, _ in _processes() if number == process), "")


def _processes() -> Iterator[tuple[int, str, int]]:
    """Number, name of the program and parent of each on this machine."""
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat", errors="replace") as file:
                told = file.read()
        except OSError:
            # It has gone since it was listed.
            continue
        # The name is in brackets, and can hold any.
        name, _, rest = told.partition("(")[2].rpartition(")")
        yield int(number), name, int(rest.split()[1])
