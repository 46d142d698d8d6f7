"""Files that hold schedules, each kind in the format of one version: they are read in one way, whatever they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from ..core.errors import InvalidCounterexample, InvalidScenario, UnknownCounterexampleVersion
from .folder import meant

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class ScheduleFormat(Generic[T]):
    """What files of a kind hold, and what is said where one does not."""

    holds: type[T]
    """With a field `version`."""
    version: int
    called: str
    """What such a file is, and who writes it."""
    otherwise: str
    """What to do where one cannot be used."""
    marks: tuple[str, ...] = ("version",)
    """Fields without which a file is something else altogether."""

    def read(self, path: Path, check: Callable[[T], object]) -> T:
        """What a file holds, once a check of it has passed, which may raise InvalidScenario or an error of msgspec's.

        Raises InvalidCounterexample for what is damaged or something else, UnknownCounterexampleVersion for another
        version.
        """
        try:
            return self.take(path, msgspec.json.decode(path.read_bytes()), check)
        except OSError as error:
            raise InvalidCounterexample(f"{path} cannot be read: {error.strerror or error}{meant(path)}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidCounterexample(f"{path} is damaged: {error}; {self.otherwise}") from error

    def take(self, path: Path, found: object, check: Callable[[T], object]) -> T:
        """The same of what was decoded already, from that file or from a part of it."""
        if not isinstance(found, dict) or any(mark not in found for mark in self.marks):
            raise InvalidCounterexample(f"{path} is not {self.called}; {self.otherwise}")
        if found["version"] != self.version:
            raise UnknownCounterexampleVersion(
                f"{path} has version {found['version']!r}; this streamproof reads version {self.version}: "
                f"{self.otherwise}"
            )
        try:
            read = msgspec.convert(found, self.holds)
            check(read)
        except (msgspec.MsgspecError, InvalidScenario) as error:
            raise InvalidCounterexample(f"{path} is damaged: {error}; {self.otherwise}") from error
        return read
