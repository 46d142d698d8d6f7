"""What a search is worth: of how many small changes to the code of a scheme it finds one, as `tests/mutation/power.py`
has measured it for the schemes of this package.

What was measured stands in power.json beside this file. It is said of a search that is like the one it was measured
with, under a scheme that is made of the same parts, whose sources are the very same; of no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from ..contracts.subject import SchemeSubject
from ..core.guarantees import Guarantee
from ..core.topology import Role
from ..core.wording import counted
from ..protocol.spec import Setup

FILE: Final = "power.json"


class FoundBy(StrEnum):
    """How a search shows that something was changed."""

    VIOLATION = "violation"
    ERROR = "error"
    STALL = "stall"
    """A run did not come to its end, or could not be judged."""
    UNTRIED = "untried"
    """What the claims rest on was not at work in the whole of the search, or hardly."""
    NOTHING = "nothing"
    """It says that the claims hold."""


class ChangeTried(msgspec.Struct, frozen=True):
    """One change, and what a search made of it."""

    place: str
    """Module, line and column."""
    change: str
    by: FoundBy
    schedule: int
    """The first that shows it, from 1; 0: it shows without any failure. Of what was not found: how many were tried."""
    why: str = ""


class PowerMeasured(msgspec.Struct, frozen=True):
    """What was measured of one scheme, on one scenario."""

    scenario: str
    """Whose sizes were brought down, as `explore` does."""
    kind: str
    parts: dict[str, list[str]]
    sources: dict[str, str]
    """Module -> the digest of its source: those of the scheme that ran."""
    events: int
    schedules: int
    seed: int
    places: int
    """At which something could be changed, in lines that ran; as many are in `changes`, or a sample of them."""
    changes: list[ChangeTried]
    search_cpu: float
    """Seconds of the search under the scheme as it is."""
    all_cpu: float
    """Seconds of all searches together."""
    version: str
    python: str
    day: str


@dataclass(frozen=True)
class SearchPower:
    """What is known of the power of a search."""

    measured: PowerMeasured
    schedules: int
    """Of the search, or of what was measured where that is less."""
    by: Counter[FoundBy]
    calm: int
    """Of those found, how many show without any failure."""
    elsewhere: bool = False
    """Whether it was measured on another scenario than the one that is searched: other operators, and another topology,
    may show less."""

    @property
    def found(self) -> int:
        return sum(count for how, count in self.by.items() if how is not FoundBy.NOTHING)

    @property
    def tried(self) -> int:
        return len(self.measured.changes)

    def __str__(self) -> str:
        if not self.tried:
            return f"no code of {self.measured.kind} itself runs in this search, so nothing of it could be changed"
        how = ", ".join(f"{self.by[one]} {said}" for one, said in _SAID.items() if self.by[one])
        sample = "" if self.tried == self.measured.places else f", drawn from {self.measured.places},"
        measured = self.measured
        return (
            f"{self.found} of {self.tried} small changes to the code of {measured.kind} that runs{sample} are found by "
            f"{counted(self.schedules, 'such schedule')}: {self.calm} without any failure, and of the other "
            f"{self.tried - self.calm}, of which some change nothing that is claimed, {self.found - self.calm} in "
            f"crashes ({how or 'none'}); measured on {measured.scenario} with {counted(measured.events, 'event')}, "
            f"{measured.day}{_ELSEWHERE if self.elsewhere else ''}"
        )


_ELSEWHERE: Final = ", and not on this scenario, where a search may find fewer of them"
_SAID: Final = {
    FoundBy.VIOLATION: "by a violation",
    FoundBy.ERROR: "by an error",
    FoundBy.STALL: "by a run without end",
    FoundBy.UNTRIED: "by what was never at work",
}


def power_of(
    subject: SchemeSubject, claims: Iterable[Guarantee], scenario: str, events: int, schedules: int
) -> SearchPower | str:
    """Of a search of crashes, one at a time and drawn at random, with so many events and schedules, each judged by
    these claims; or why nothing is known of it. `scenario`: its name, whatever its sizes."""
    made = composition(subject, claims)
    alike = [one for one in measurements() if one.kind == subject.kind and one.parts == made]
    if not alike:
        return f"nobody has measured it for {subject.kind} as it is made here"
    chosen = next((one for one in alike if one.scenario == scenario), alike[0])
    if chosen.events != events:
        return f"it was measured with {counted(chosen.events, 'event')}"
    changed = [name for name, digest in chosen.sources.items() if digest_of(name) != digest]
    if changed:
        return f"{', '.join(changed)} changed since it was measured"
    return replace(of_so_many(chosen, schedules), elsewhere=chosen.scenario != scenario)


def of_so_many(measured: PowerMeasured, schedules: int) -> SearchPower:
    """What the first so many schedules find, of what was measured."""
    first = min(schedules, measured.schedules)
    found = [one for one in measured.changes if one.by is not FoundBy.NOTHING and one.schedule <= first]
    by = Counter(one.by for one in found)
    by[FoundBy.NOTHING] = len(measured.changes) - len(found)
    return SearchPower(measured, first, by, sum(one.schedule == 0 for one in found))


@cache
def measurements() -> tuple[PowerMeasured, ...]:
    """Those that come with this package."""
    return tuple(
        msgspec.json.decode(resources.files(__package__).joinpath(FILE).read_bytes(), type=list[PowerMeasured])
    )


def composition(subject: SchemeSubject, claims: Iterable[Guarantee]) -> dict[str, list[str]]:
    """What a subject is made of: classes by their modules; what is put around them; and by which claims it is judged,
    which may be others than its own."""
    made = {str(role): list(_parts(subject.setups[role])) for role in Role}
    made |= {f"operator {name}": list(_parts(setup)) for name, setup in sorted(subject.operators.items())}
    made["around"] = [_named(subject.wrap_store), *(f"{role}: {_named(wrap)}" for role, wrap in subject.wraps.items())]
    made["replicas"] = [str(subject.replicas)]
    made["claims"] = [guarantee.name for guarantee in claims]
    return made


def _parts(setup: Setup) -> Iterator[str]:
    yield from (_named(type(one)) for one in setup.mechanisms)
    yield from (_named(type(one)) for one in setup.coordinators)
    yield str(setup.numbering)
    if setup.merge is not None:
        yield _named(type(setup.merge))


def _named(made_by: object) -> str:
    """A class, or a function."""
    return f"{getattr(made_by, '__module__', '')}.{getattr(made_by, '__qualname__', repr(made_by))}"


def digest_of(module: str) -> str:
    """Of a module's source; "" where it has none, or is not there."""
    try:
        spec = find_spec(module)
    except ImportError:
        return ""
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return blake2b(Path(spec.origin).read_bytes(), digest_size=16).hexdigest()
