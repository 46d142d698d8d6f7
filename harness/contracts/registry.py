"""What is known by name: kinds of fault, oracles, schemes, scenarios, and the clusters.

The harness imports none of the rooms. Each room names what it offers in the package's metadata, under the entry point
group `streamproof`; a user's package adds its own there in the same way. Loading one is explicit: no import has side
effects.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, Protocol

from ..core.error_text import described_error, somebodys_code
from ..core.errors import InvalidScenario, InvalidScheme, NotImportable, UnknownName, nearest
from ..core.guarantees import Guarantee
from ..core.library import Entry, entries, listed_by
from ..core.quantities import Events
from ..core.topology import Topology
from ..core.verdicts import Anomaly
from ..core.workload import Workload
from ..judging.oracle import Oracle
from .claims import Claim
from .injection import FaultKind
from .query import Query
from .scaling import BATCHES, scaled
from .scenario import Scenario
from .subject import SchemeSubject

GROUP = "streamproof"
MUTANT = "mutant:"
"""Begins the origin of a scenario under a mutant: `mutant:NAME@SCENARIO`."""


SCALED = "scaled:"
"""Begins the origin of a scenario whose sizes are brought down: `scaled:EVENTS@SCENARIO`, or
`scaled:EVENTS/BATCHES@SCENARIO`."""


class Mutant(Protocol):
    """A scheme that is broken on purpose, by one rule of its protocol."""

    @property
    def name(self) -> str: ...

    @property
    def breaks(self) -> str:
        """The rule, as the scheme keeps it."""

    @property
    def anomaly(self) -> Anomaly:
        """What must be seen of it."""

    @property
    def on(self) -> str:
        """A scenario on whose topology and input it shows."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of fault under which it shows."""

    @property
    def spread(self) -> bool:
        """Whether it shows only where all replicas are on nodes of their own, and messages take longer than the next
        event."""

    def make(self, topology: Topology, checkpoint_every: Events) -> SchemeSubject: ...


class Certifiable(Protocol):
    """A query, with what it claims and is fed."""

    @property
    def query(self) -> Query: ...

    @property
    def claims(self) -> Sequence[Guarantee | Claim]: ...

    @property
    def workload(self) -> Workload | None: ...


class VersionPair(Protocol):
    """Two versions of a query, of which one is to go on from what the other leaves."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """What is changed, and what becomes of it."""

    @property
    def old(self) -> Query: ...

    @property
    def new(self) -> Query: ...

    @property
    def workload(self) -> Workload | None: ...

    @property
    def basis(self) -> str:
        """What the new one is compared with, as the command line says it."""

    def expected_on(self, version: str) -> str | None:
        """What becomes of it where both run on this version of Spark; None: nobody knows."""


@dataclass(frozen=True)
class Named:
    """A scenario that can be run by name, and where it came from, so that its run can be judged again elsewhere."""

    name: str
    origin: str
    """`module:attribute`, or the name in the library."""
    summary: str
    scenario: Scenario


class Registry:
    """Everything that the installed packages offer, loaded when first asked for."""

    def _load(self, name: str) -> Iterator[tuple[str, Any]]:
        """Each thing with the package that offers it."""
        for point in entry_points(group=GROUP):
            if point.name == name:
                package = "a package" if point.dist is None else point.dist.name
                try:
                    offered = list(point.load())
                except Exception as error:
                    raise NotImportable(
                        f"{package} offers {name} at {point.value}, which cannot be used: {described_error(error)}"
                    ) from error
                yield from ((package, one) for one in offered)

    def _by_name(self, group: str, name_of: Callable[[Any], str]) -> dict[str, Any]:
        """Raises NotImportable where two have one name: which of them is meant would go by the order of a path."""
        found: dict[str, Any] = {}
        packages: dict[str, str] = {}
        for package, one in self._load(group):
            name = name_of(one)
            if name in found and found[name] != one:
                raise NotImportable(
                    f"{packages[name]} and {package} offer {group} that are called {name!r}, and nobody could say "
                    "which is meant: give yours another name, or remove the package"
                )
            found[name], packages[name] = one, package
        return found

    def _entries(self, group: str) -> dict[str, Entry]:
        """A maker may stand in a list by itself, and then goes by its own name."""
        found = self._by_name(group, lambda offered: _entry(offered).name)
        return {name: _entry(offered) for name, offered in found.items()}

    @cached_property
    def faults(self) -> dict[str, FaultKind]:
        return self._by_name("faults", attrgetter("name"))

    @cached_property
    def oracles(self) -> dict[str, Oracle]:
        return self._by_name("oracles", attrgetter("guarantee"))

    @cached_property
    def schemes(self) -> dict[str, Entry]:
        return self._entries("schemes")

    @cached_property
    def scenarios(self) -> dict[str, Entry]:
        return self._entries("scenarios")

    @cached_property
    def subjects(self) -> dict[str, Certifiable]:
        return self._by_name("subjects", attrgetter("query.name"))

    @cached_property
    def upgrades(self) -> dict[str, VersionPair]:
        return self._by_name("upgrades", attrgetter("name"))

    @cached_property
    def mutants(self) -> dict[str, Mutant]:
        return self._by_name("mutants", attrgetter("name"))

    def scenario(self, name: str) -> Named:
        """A scenario by its name in the library, as `module:attribute`, under a mutant as `mutant:NAME@SCENARIO`, or
        with its sizes brought down as `scaled:EVENTS@SCENARIO`.

        Raises UnknownName, NotImportable, or InvalidScenario when what is there makes no scenario.
        """
        if name.startswith(SCALED):
            return self._scaled(*name.removeprefix(SCALED).partition("@")[::2])
        if name.startswith(MUTANT):
            return self._mutated(*name.removeprefix(MUTANT).partition("@")[::2])
        if ":" not in name:
            entry = self.scenarios.get(name)
            if entry is None:
                raise UnknownName("scenario", name, sorted(self.scenarios), listed_by("scenarios"))
            return Named(name, name, entry.summary, _made(entry.make, name))
        made = load_object(name)
        summary = (getattr(made, "__doc__", None) or "").strip().partition("\n")[0]
        attribute = name.rpartition(":")[2]
        return Named(attribute.replace("_", "-"), name, summary, _made(made, name))

    def _scaled(self, sizes: str, origin: str) -> Named:
        events, cut, batches = sizes.partition("/")
        if not all(number.isdecimal() and int(number) for number in ([events, batches] if cut else [events])):
            wanted = f"a number of events, as in {SCALED}30@{origin}, and at most one of batches, as in {SCALED}20/5@"
            raise InvalidScenario(f"a scenario is scaled to {wanted}; {sizes!r} is none")
        base = self.scenario(origin)
        small = scaled(base.scenario, int(events), int(batches) if cut else BATCHES)
        return Named(base.name, f"{SCALED}{sizes}@{base.origin}", base.summary, small)

    def _mutated(self, name: str, origin: str) -> Named:
        """The topology and the workload of a scenario under a mutant, judged against what the mutant claims. Raises
        UnknownName, or InvalidScheme where the mutant cannot be made there."""
        mutant = self.mutants.get(name)
        if mutant is None:
            raise UnknownName("mutant", name, sorted(self.mutants), listed_by("mutants"))
        base = self.scenario(origin)
        subject = base.scenario.subject
        if not isinstance(subject, SchemeSubject):
            raise InvalidScenario(f"{base.name} cannot be run under a mutant: its subject is no scheme")
        for kind in mutant.kinds:
            if kind not in self.faults:
                raise UnknownName(f"kind of fault of mutant {name}", kind, sorted(self.faults), listed_by("faults"))
        mutated = _made_by(mutant, subject, base.name)
        scenario = Scenario(mutated, base.scenario.workload, deadline=base.scenario.deadline)
        return Named(f"{name}@{base.name}", f"{MUTANT}{name}@{base.origin}", f"Breaks: {mutant.breaks}", scenario)


def _made_by(mutant: Mutant, subject: SchemeSubject, scenario: str) -> SchemeSubject:
    with somebodys_code(InvalidScheme, f"mutant {mutant.name} cannot be made on {scenario}"):
        made: object = mutant.make(subject.topology, subject.interval)
    if not isinstance(made, SchemeSubject):
        raise InvalidScheme(f"mutant {mutant.name} gives a {type(made).__name__}; it must give a SchemeSubject")
    return made


def _entry(offered: Any) -> Entry:
    return offered if isinstance(offered, Entry) else entries("", offered)[0]


def load_object(origin: str) -> Any:
    """The object that `module:attribute` names. Raises NotImportable."""
    module_name, _, attribute = origin.partition(":")
    if not module_name or not attribute:
        raise NotImportable(f"{origin!r} does not name anything; write module:attribute")
    module = _imported(module_name)
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        offered = [name for name, value in vars(module).items() if _offered(value, module_name)]
        raise UnknownName(f"attribute of {module_name}", attribute, _shown(offered)) from error


def certifiable_in(module_name: str) -> list[str] | None:
    """What a module offers to be certified, as `module:attribute`; None where there is no such module. Raises
    NotImportable."""
    try:
        if importlib.util.find_spec(module_name) is None:
            return None
    except (ImportError, ValueError):
        return None
    found = vars(_imported(module_name))
    names = [name for name, value in found.items() if _certifiable(value, module_name)]
    return [f"{module_name}:{name}" for name in _shown(names)]


def _imported(module_name: str) -> ModuleType:
    arguments = sys.argv
    # A script reads its arguments when it is imported: those of this command are none of its.
    sys.argv = arguments[:1]
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise NotImportable(
            f"cannot import {module_name!r} ({error}); {_meant(module_name, error)}"
            "is its folder on PYTHONPATH, and everything that it needs installed?"
        ) from error
    except (Exception, SystemExit) as error:
        raise NotImportable(f"cannot import {module_name!r}: {described_error(error)}{_hint(error)}") from error
    finally:
        sys.argv = arguments


def _meant(module_name: str, error: ImportError) -> str:
    """Where there is no such module: those here and installed whose names are nearly that."""
    package, _, name = module_name.rpartition(".")
    folders = list(getattr(sys.modules.get(package), "__path__", ())) if package else None
    if error.name != module_name or folders == []:
        return ""
    meant = nearest(name, {one.name for one in pkgutil.iter_modules(folders)}, 0.7)
    return f"the nearest are: {', '.join(f'{package}.{one}' if package else one for one in meant)}; " if meant else ""


def _hint(error: BaseException) -> str:
    """Of a module that needs a session when it is imported."""
    innermost = traceback.extract_tb(error.__traceback__)[-1:]
    if not any(f"{os.sep}pyspark{os.sep}" in frame.filename for frame in innermost):
        return ""
    return (
        "; what that line makes (a Column, say) needs a Spark session: make it within the function, or begin the "
        "module with SparkSession.builder.getOrCreate()"
    )


def _certifiable(value: Any, module_name: str) -> bool:
    """A query, an object with one, or a function of the module's own that may make one, or be its transform."""
    if isinstance(value, Query) or (not isinstance(value, type) and isinstance(getattr(value, "query", None), Query)):
        return True
    if not inspect.isfunction(value) or value.__module__ != module_name:
        return False
    required = (one for one in inspect.signature(value).parameters.values() if one.default is one.empty)
    needed = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in required)
    return needed == 1 or (needed == 0 and not _makes_input(value))


def _makes_input(function: FunctionType) -> bool:
    """Whether it returns a Workload, by what it says itself; else by what it names: what makes one, and no query."""
    own = _returned(function)
    if own:
        return own == Workload.__name__
    named = {_returned(function.__globals__.get(name)) for name in function.__code__.co_names}
    return Workload.__name__ in named and Query.__name__ not in named


def _returned(value: Any) -> str:
    """The name of the type of which somebody says that a call gives it, or that a value is of; empty: nobody says."""
    if isinstance(value, Query):
        return Query.__name__
    said = value if isinstance(value, type) else getattr(value, "__annotations__", {}).get("return", "")
    return said.__name__ if isinstance(said, type) else str(said).rpartition(".")[2]


def _offered(value: Any, module_name: str) -> bool:
    """Whether a module's value may be meant: a scenario or a query, or what it defines itself and can be called."""
    return isinstance(value, Scenario | Query) or (
        callable(value) and getattr(value, "__module__", None) == module_name
    )


def _shown(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith("_"))


def _made(make: Any, name: str) -> Scenario:
    with somebodys_code(InvalidScenario, f"{name} does not make a scenario"):
        scenario = make() if callable(make) else make
    if not isinstance(scenario, Scenario):
        raise InvalidScenario(f"{name} gives a {type(scenario).__name__}; it must be, or return, a Scenario")
    if scenario.minimal:
        raise InvalidScenario(
            f"{name} says that it is minimal, so that what its claims rest on need not be at work: that is for "
            "counterexamples, which streamproof makes; leave minimal out"
        )
    return scenario
