"""Runs in the simulator with the verdicts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simulation import KINDS, options_of
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.guarantees import Guarantee
from streamproof.harness.core.lattice import implied
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.judging.collation import Collation
from streamproof.harness.judging.oracle import Case, Oracle, judge_each
from streamproof.harness.recording.history import History
from streamproof.harness.running.judgement import judge_claims
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.oracles import ORACLES

JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}


class RegistryWith(Registry):
    """What is installed, with these oracles beside it, or in the place of those of their guarantees."""

    def __init__(self, *oracles: Oracle) -> None:
        self._given = oracles

    @cached_property
    def oracles(self) -> dict[str, Oracle]:
        return {**JUDGES, **{oracle.guarantee: oracle for oracle in self._given}}


@dataclass(frozen=True)
class Judged:
    """A run with its verdicts: of every guarantee that is claimed, and of all that these imply."""

    scenario: Scenario
    history: History
    collation: Collation
    verdicts: tuple[Verdict, ...]

    @property
    def claim(self) -> Verdict:
        return self.verdicts[0]

    @property
    def lost(self) -> int:
        return self.collation.lost_state.count + self.collation.lost_output.count

    def verdict(self, guarantee: str) -> Verdict:
        case = Case(self.history, self.collation, self.scenario.subject.checkpoint_every, virtual_time=True)
        return judge_each(case, [Guarantee(guarantee)], JUDGES)[0]

    def alarms(self) -> list[str]:
        return [f"{v.guarantee}: {v.summary}: {v.anomalies}" for v in self.verdicts if v.status is Status.VIOLATED]


def rejudged(scenario: Scenario, history: History) -> Judged:
    """A history, made by hand perhaps, judged against what the scenario claims."""
    return judged(scenario, history, scenario.subject.collate(history))


def run(scenario: Scenario, schedule: Sequence[Fault], *, seed: int = 1, world: str = "usual") -> Judged:
    planned = replace(scenario, faults=tuple(schedule))
    history, judgement = run_in_memory(planned, SimulatedCluster(options_of(world, scenario)), KINDS, JUDGES, seed=seed)
    return judged(planned, history, judgement.collation)


def judged(scenario: Scenario, history: History, collation: Collation) -> Judged:
    case = Case(history, collation, scenario.subject.checkpoint_every, virtual_time=True)
    weaker = {name for guarantee in scenario.claimed for name in implied(guarantee.name, JUDGES)}
    weaker -= {guarantee.name for guarantee in scenario.claimed}
    weaker -= {
        name for name in weaker if JUDGES[name].cannot_hold(collation.reexecution is not None, collation.observables)
    }
    guarantees = [*scenario.claimed, *(Guarantee(name) for name in sorted(weaker))]
    verdicts = judge_claims(scenario.subject, case, guarantees, JUDGES)
    return Judged(scenario, history, collation, tuple(verdicts))
