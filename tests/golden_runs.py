"""Runs what golden histories are kept of, and says what came of it.

Whatever here knows how the package is made may change with it; what comes out may not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from golden_lines import Block, Came, Difference, Planned, decoded, difference, said
from simulation import CASES, EVERY, history_of, scenario_of
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.guarantees import K_SAFETY, RECOVERS, Guarantee
from streamproof.harness.core.lattice import ranked
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.judging.oracle import Case
from streamproof.harness.recording.history import History, TimelineEntry
from streamproof.harness.running.judgement import judge_claims
from streamproof.reference_impls.mutants import MUTANTS, BrokenScheme
from verdicts_of import JUDGES

MUTANTS_FILE = "mutants"
DIGITS = 16
"""Of the digest, that are kept."""
_SENTENCES = frozenset({"fault", "why", "waiting_for", "what"})
"""Fields of the timeline that are prose."""
_NOT_OF_THE_RUN = frozenset({"pids", "silent"})
"""Fields that say how it was on this machine."""


def workloads_of(scheme: str) -> list[str]:
    """Those that a scheme does not refuse."""
    return [workload for of, _, workload in (case.partition("/") for case in CASES) if of == scheme]


@dataclass(frozen=True)
class Sized:
    """A mutant, and how much it is fed."""

    mutant: str
    events: int
    batch: int

    @classmethod
    def parse(cls, text: str) -> Sized:
        """As a block names it: `mutant@48/4`."""
        mutant, _, size = text.partition("@")
        events, _, batch = size.partition("/")
        return cls(mutant, int(events), int(batch))

    def __str__(self) -> str:
        return f"{self.mutant}@{self.events}/{self.batch}"


def scenario(scheme: str, workload: str) -> Scenario:
    """Raises KeyError for a scheme, workload or mutant that is no more."""
    return _mutated(Sized.parse(workload)) if scheme == MUTANTS_FILE else scenario_of(f"{scheme}/{workload}")


@cache
def _registry() -> Registry:
    return Registry()


def mutants() -> dict[str, BrokenScheme]:
    return {mutant.name: mutant for mutant in MUTANTS}


def _mutated(sized: Sized) -> Scenario:
    mutant = mutants()[sized.mutant]
    home = _registry().scenario(mutant.on).scenario
    assert isinstance(home.subject, SchemeSubject)
    workload = replace(home.workload, events=sized.events, batch=sized.batch, rate=None)
    return Scenario(mutant.make(home.subject.topology, EVERY), workload)


def claims_of(of: Scenario) -> str:
    return " ".join(map(_written, of.claimed))


def others_than_claimed(of: Scenario) -> tuple[str, ...]:
    """The lattice, and what stands beside it, as far as it means something without a bound."""
    claimed = {guarantee.name for guarantee in of.claimed}
    return tuple(name for name in (*ranked(JUDGES), K_SAFETY, RECOVERS) if name not in claimed)


def _written(guarantee: Guarantee) -> str:
    within, opens = guarantee.within, dict(guarantee.amounts).get("opens_within")
    bounds = []
    if within is not None:
        bounds.append(f"{within.micros}us" if isinstance(within, Duration) else f"{within.count}ev")
    if isinstance(opens, Duration):
        bounds.append(f"opens={opens.micros}us")
    return f"{guarantee.name}({','.join(bounds)})" if bounds else guarantee.name


def outcome(of: Scenario, others: Sequence[str], planned: Planned) -> Came:
    """What comes of one run."""
    history = history_of(of, decoded(planned.schedule), seed=planned.seed, world=planned.world)
    case = Case(history, of.subject.collate(history), of.subject.checkpoint_every, virtual_time=True)
    guarantees = [*of.claimed, *map(Guarantee, others)]
    return Came(digest(history)[:DIGITS], _letters(judge_claims(of.subject, case, guarantees, JUDGES)))


def digest(history: History) -> str:
    """That of the canonical history, but without its prose, which may be put otherwise, and with virtual time."""
    encode = msgspec.msgpack.Encoder(order="sorted").encode
    sha = hashlib.sha256()
    for stamped in history.records:
        sha.update(encode((stamped.at, stamped.record)))
    for entry in history.timeline:
        sha.update(encode(_without_prose(entry)))
    return sha.hexdigest()


def _without_prose(entry: TimelineEntry) -> Any:
    return _pruned(msgspec.to_builtins(entry))


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = _SENTENCES | _NOT_OF_THE_RUN
        return {name: _pruned(one) for name, one in value.items() if name not in left_out}
    return [_pruned(one) for one in value] if isinstance(value, list | tuple) else value


def _letters(verdicts: Iterable[Verdict]) -> str:
    letters, lists = "", list[str]()
    for verdict in verdicts:
        match verdict.status:
            case Status.HOLDS:
                letters += "H"
            case Status.UNKNOWN:
                letters += "X" if verdict.own_failure else "U"
            case Status.VIOLATED:
                seen = "+".join(f"{tally.anomaly}={tally.count}" for tally in verdict.anomalies)
                if seen not in lists:
                    lists.append(seen)
                letters += chr(ord("a") + lists.index(seen))
    return " ".join((letters, *lists))


def judged_of(block: Block) -> list[str]:
    """The guarantees of a block, in the order of its verdicts."""
    return [*block.claims.split(" "), *block.others]


def differences(scheme: str, block: Block) -> Iterator[Difference]:
    """The runs of a block that come out otherwise than they are kept."""
    of = scenario(scheme, block.workload)
    for planned, kept in block.runs:
        try:
            now = outcome(of, block.others, planned)
        except Exception as error:
            error.add_note(f"This was in {said(scheme, block.workload, planned)}")
            raise
        found = difference(scheme, block, planned, kept, now, judged_of(block))
        if found is not None:
            yield found
