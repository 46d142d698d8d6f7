"""A search under a scheme in which one thing was changed, in a process of its own: what the search makes of it.

Nothing is written: the changed module is compiled from what is handed over when the process imports it.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.harness.exploration.exploring import Explored, usual_plans
from streamproof.harness.exploration.power import FoundBy, composition
from streamproof.harness.exploration.search import SearchBudget, SearchFindings, search
from streamproof.harness.exploration.sizes import brought_down
from streamproof.harness.exploration.small_worlds import SLOW_REPLAY

ROOMS: Final = ("streamproof.reference_impls", "streamproof.scenarios")
"""Imported anew by each process: what is changed, and what knows it."""
_MEMORY: Final = 4 << 30
_PATIENCE: Final = 40
"""Seconds of the clock for a second of CPU that is allowed, on a machine that does much else."""


@dataclass(frozen=True)
class PowerSearch:
    """What is tried, each time."""

    scenario: str
    schedules: int
    seed: int


@dataclass(frozen=True)
class Unchanged:
    """The search under the scheme as it is."""

    kind: str
    parts: dict[str, list[str]]
    events: int
    cpu: float
    lines: dict[str, list[int]]
    """Module -> the lines that ran while schedules were tried; none where nobody looked."""
    files: dict[str, str]
    """Module -> its file."""


@dataclass(frozen=True)
class Result:
    """What a search makes of a change."""

    by: FoundBy
    schedule: int
    """The first that shows it, from 1; 0: the run without failures, or what comes before it."""
    why: str = ""


def unchanged(asked: PowerSearch, *, looked_at: bool) -> Unchanged:
    """Search the scheme as it is. Raises RuntimeError where that does not say that it holds."""
    found, _ = _by_itself(_search_unchanged, (asked, looked_at), None)
    if not isinstance(found, Unchanged):
        raise RuntimeError(f"{asked.scenario} cannot be searched as it is: {found}")
    return found


def changed(asked: PowerSearch, module: str, source: str, cpu: float) -> Result:
    """Search it with another source of a module, for so many seconds of CPU at most."""
    found, begun = _by_itself(_search_changed, (asked, module, source), cpu)
    if isinstance(found, Result):
        return found
    if found:
        return Result(FoundBy.ERROR, begun, found)
    return Result(FoundBy.STALL, begun, f"no end after {cpu:.0f} s of CPU")


def _by_itself(work: Callable[..., Any], given: tuple[Any, ...], cpu: float | None) -> tuple[Any, int]:
    """What it returns, in a process of its own, or an error's text, or "" for one that was ended for the CPU it took;
    and the schedule that it had said last that it had begun.

    Raises RuntimeError where the machine gave it too little CPU to say anything.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, work, given, cpu))
    process.start()
    theirs.close()
    ends = None if cpu is None else time.monotonic() + cpu * _PATIENCE
    begun = 0
    try:
        while True:
            if not ours.poll(None if ends is None else max(0, ends - time.monotonic())):
                raise RuntimeError(
                    f"the machine is too busy: {cpu:.0f} s of CPU were not to be had in {_PATIENCE} times that"
                )
            said = ours.recv()
            if not isinstance(said, int):
                return said, begun
            begun = said
    except EOFError:
        return "", begun
    finally:
        ours.close()
        process.kill()
        process.join()


def _child(theirs: Connection, work: Callable[..., Any], given: tuple[Any, ...], cpu: float | None) -> None:
    for name in [name for name in sys.modules if name.startswith(ROOMS)]:
        del sys.modules[name]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    if cpu is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + cpu) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    try:
        found = work(*given, theirs.send)
    except Exception as error:
        # Whatever a change comes to is a result.
        found = f"{type(error).__name__}: {error}"
    theirs.send(found)
    theirs.close()


def _bench(asked: PowerSearch) -> tuple[Any, Bench]:
    registry = Registry()
    named = brought_down(asked.scenario, registry, None)
    return named, Bench(named.scenario, registry, seed=asked.seed, options=SLOW_REPLAY)


def _search_unchanged(asked: PowerSearch, looked_at: bool, say: Callable[[int], None]) -> Unchanged:
    named, bench = _bench(asked)
    lines: dict[str, set[int]] = defaultdict(set)
    if looked_at:
        sys.settrace(_line_by_line(lines))
    began = _cpu()
    try:
        findings = _searched(asked, named, bench, lambda findings: None)
    finally:
        sys.settrace(None)
    cpu = _cpu() - began
    status = Explored(named, bench.scenario, bench, findings, ()).exit_status
    if status is not ExitStatus.HOLDS or findings.essential or bench.attempt(Trial((), asked.seed)).essential:
        raise RuntimeError(f"it comes to {status!r}, and not to HOLDS alone; {dict(findings.reasons)}")
    files = {name: str(_file_of(sys.modules[name])) for name in lines}
    return Unchanged(
        bench.subject.kind,
        composition(bench.subject, bench.claims),
        bench.scenario.workload.events,
        cpu,
        {name: sorted(those) for name, those in lines.items()},
        files,
    )


class _Unclear(Exception):
    """A schedule is UNKNOWN for another reason than its faults."""


def _search_changed(asked: PowerSearch, module: str, source: str, say: Callable[[int], None]) -> Result:
    sys.meta_path.insert(0, _Changed(module, source))
    begun = 0
    """Which schedule is being tried; 0: none yet."""

    def look(findings: SearchFindings) -> None:
        if findings.essential:
            raise _Unclear("; ".join(findings.reasons))
        begin(findings.tried + 1)

    def begin(number: int) -> None:
        nonlocal begun
        begun = number
        say(begun)

    try:
        named, bench = _bench(asked)
        calm = bench.attempt(Trial((), asked.seed))
        if calm.status is Status.VIOLATED:
            return Result(FoundBy.VIOLATION, 0, str(calm.kind and calm.kind.anomaly))
        if calm.essential:
            return Result(FoundBy.STALL, 0, calm.reason)
        begin(1)
        findings = _searched(asked, named, bench, look)
    except _Unclear as unclear:
        return Result(FoundBy.STALL, begun, str(unclear))
    except Exception as error:
        return Result(FoundBy.ERROR, begun, f"{type(error).__name__}: {error}".partition("\n")[0])
    if findings.violations:
        first = findings.violations[0]
        return Result(FoundBy.VIOLATION, first.number, first.kind.anomaly)
    status = Explored(named, bench.scenario, bench, findings, ()).exit_status
    if status is not ExitStatus.HOLDS:
        return Result(FoundBy.UNTRIED, findings.tried, "too little, or not what it rests on, was at work")
    return Result(FoundBy.NOTHING, findings.tried)


def _searched(asked: PowerSearch, named: Any, bench: Bench, show: Callable[[SearchFindings], None]) -> SearchFindings:
    """As `explore` does it, until the first violation."""
    budget = SearchBudget(asked.schedules)
    plans = usual_plans(budget, asked.seed)
    return search(bench, plans, budget, origin=named.origin, until=lambda violation: True, show=show)


def _line_by_line(lines: dict[str, set[int]]) -> Callable[[FrameType, str, Any], Any]:
    """Notes the lines of the rooms' first that run."""
    room = f"{ROOMS[0]}."

    def in_frame(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            lines[frame.f_globals["__name__"]].add(frame.f_lineno)
        return in_frame

    def calls(frame: FrameType, event: str, argument: Any) -> Any:
        return in_frame if frame.f_globals.get("__name__", "").startswith(room) else None

    return calls


def _file_of(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class _Changed(MetaPathFinder):
    """Finds one module with another source than its file's."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _ChangedLoader(fullname, spec.origin, self._source)
        return spec


class _ChangedLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        code = compile(self._source, self.path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code
