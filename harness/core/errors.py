"""Every error that streamproof raises on purpose: one class a cause.

A message says what was wrong, with the value, and what to do. The command line prints the message alone and exits with
the class's `exit_status`; a traceback is for our own mistakes only.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum

_FEW = 6
"""Names that are all said to whoever mistakes one."""
_NEAREST = 3
_MANY = 30
"""Names that are said where no command lists them."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0) -> list[str]:
    """Those that whoever wrote the name may have meant, the likeliest first; `cutoff`: how alike they are at least."""
    return get_close_matches(name, list(known), _NEAREST, cutoff)


class ExitStatus(IntEnum):
    """What a command of streamproof tells the shell."""

    HOLDS = 0
    VIOLATED = 1
    UNKNOWN = 2
    USER_MISTAKE = 3
    OWN_FAILURE = 4


class StreamproofError(Exception):
    """The root of the taxonomy. Never raised itself."""

    exit_status: ExitStatus = ExitStatus.OWN_FAILURE


class UserMistake(StreamproofError):
    """Something that was handed to streamproof cannot be used; nothing has been started."""

    exit_status = ExitStatus.USER_MISTAKE


class InvalidScenario(UserMistake):
    """A scenario contradicts itself: an unknown slice, a trigger that cannot happen, a claim without an oracle."""


class UnknownName(UserMistake):
    """A name that no registry knows. Where there are many, the message has the nearest, and the command that lists all
    of them, or the names themselves where none does."""

    def __init__(self, kind: str, name: str, known: list[str], listed_by: str = "") -> None:
        if len(known) > _FEW:
            every = listed_by or f"{', '.join(known[:_MANY])}{', ...' if len(known) > _MANY else ''}"
            there_are = f"the nearest are: {', '.join(nearest(str(name), known))}. All {len(known):,}: {every}"
        else:
            there_are = f"there are: {', '.join(known) or 'none'}"
        super().__init__(f"there is no {kind} {name!r}; {there_are}")
        self.kind = kind
        self.name = name
        self.known = known


class NotImportable(UserMistake):
    """`module:name` does not lead to what it should."""


class InvalidTopology(UserMistake):
    """A graph of operators that cannot be run."""


class UsersCodeFailed(UserMistake):
    """Code that was handed to streamproof breaks its contract when it is called."""


class InvalidOperator(UsersCodeFailed):
    """An operator breaks its contract: it raised, its output is malformed, or its state cannot be snapshotted."""


class InvalidScheme(UsersCodeFailed):
    """What a scheme is made of breaks its contract, or does not fit together: a mechanism, coordinator or merge raised,
    or asks for what cannot be done."""


class InvalidFault(UsersCodeFailed):
    """A kind of fault breaks its contract: it raised, did nothing, or says what the cluster did not."""


class Unsupported(UserMistake):
    """A cluster cannot run this subject or carry out this fault."""


class MissingTool(UserMistake):
    """The machine lacks something that the run needs (Java, Spark, a port, ...)."""


class StoreUnreachable(UserMistake):
    """A store outside that a query names cannot be reached, so that what became of the query says nothing of it."""


class NoDistance(UserMistake):
    """What a claim measures the error of a result by cannot measure it."""


class InvalidHistory(UserMistake):
    """A run folder cannot be judged."""


class DamagedHistory(InvalidHistory):
    """A record of the run folder is truncated or altered."""


class UnknownHistoryVersion(InvalidHistory):
    """The run folder was written by another version of the format."""


class ScenarioChanged(InvalidHistory):
    """The code of a scenario is not what it was when its run, or a counterexample of it, was recorded."""


class InvalidCertificate(InvalidHistory):
    """A folder holds no certificate, or one that cannot be read."""


class AlteredCertificate(InvalidCertificate):
    """A certificate, or a file that it lists, is not what it was when it was written."""


class UnknownCertificateVersion(InvalidCertificate):
    """The certificate was written by another version of the format."""


class InvalidCounterexample(UserMistake):
    """A file cannot be replayed: it is no counterexample, or a damaged one."""


class UnknownCounterexampleVersion(InvalidCounterexample):
    """The counterexample was written by another version of the format."""


class InvalidDocument(UserMistake):
    """A file holds nothing that can be drawn, or what it holds is damaged."""


class UnknownDocumentVersion(InvalidDocument):
    """It was printed by another version of the format."""


class NothingLeft(UserMistake):
    """A campaign that is to go on has come to its end."""


class UnusablePlace(UserMistake):
    """A folder or a file that was named cannot be where it is to be: what is above it is a file, say, or somebody
    else's."""


class RunFolderInUse(UserMistake):
    """Another run writes to this folder, or it already holds one."""


class OwnFailure(StreamproofError):
    """Something that streamproof itself is answerable for went wrong."""


class DeadlinePassed(OwnFailure):
    """A condition did not come true in time. Carries what was waited for and what was seen instead."""

    def __init__(self, waited_for: str, seconds: float, seen: str) -> None:
        super().__init__(f"waited {seconds:g} s for {waited_for}; last seen: {seen}")
        self.waited_for = waited_for
        self.seconds = seconds
        self.seen = seen


class ProcessDied(OwnFailure):
    """A process that the run needs ended by itself. Carries the end of its log."""


class StorageFailed(OwnFailure):
    """A record or checkpoint could not be written (disk full, no permission)."""


class StorageRefused(StorageFailed):
    """A disk that is full, read-only or failing has refused a checkpoint; it may take it later."""


class ProtocolBroken(OwnFailure):
    """A peer sent something that the wire format does not allow, or spoke with a wrong token or version."""
