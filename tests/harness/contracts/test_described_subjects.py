"""What a record says of a subject: names and settings, whatever these are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Status
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered


def smallest(loads: Mapping[str, int]) -> str:
    return min(loads, key=lambda one: loads[one])


@dataclass(frozen=True)
class Limits:
    most: int = 5
    names: frozenset[str] = frozenset({"b", "a"})


@dataclass(frozen=True)
class Choosing(Mechanism):
    """With settings of every kind."""

    choose: Callable[[Mapping[str, int]], str] = smallest
    kind: type[AtWork] = AtWork
    limits: Limits = Limits()
    others: tuple[Any, ...] = (ms(5), events(3), None, 0.5)
    weights: Mapping[str, int] = field(default_factory=lambda: {"x": 1})
    lock: Any = field(default_factory=Lock)

    def attach(self, machine: Any) -> AtWork:
        return self.kind(machine)


def choosing() -> SchemeSubject:
    base = passive_replication(trace(), checkpoint_every=events(20))
    operators = base.setups[Role.OPERATOR]
    setup = replace(operators, mechanisms=(*operators.mechanisms, Choosing()))
    return replace(base, setups={**base.setups, Role.OPERATOR: setup})


def test_a_mechanism_is_described_by_all_of_its_settings() -> None:
    *_, described = choosing().describe()["setups"]["operator"]["mechanisms"]
    assert described == {
        "name": "Choosing",
        "choose": "smallest",
        "kind": "AtWork",
        "limits": {"most": 5, "names": ["a", "b"]},
        "others": [{"micros": 5_000}, {"count": 3}, None, 0.5],
        "weights": {"x": 1},
        "lock": "lock",
    }


@pytest.mark.parametrize("make", [choosing, lambda: passive_replication(trace())])
def test_what_json_gives_back_is_the_same(make: Callable[[], SchemeSubject]) -> None:
    described = make().describe()
    assert msgspec.json.decode(msgspec.json.encode(described)) == described == make().describe()


def test_a_run_is_kept_whatever_a_mechanism_is_set_to(tmp_path: Path) -> None:
    scenario = Scenario(choosing(), numbered(events=120, batch=10), [crash("relay-0").after(events(70))])
    finished = run_named(Named("mine", "", "", scenario), SimulatedCluster(), Registry(), seed=1, folder=tmp_path / "r")
    assert [verdict.status for verdict in finished.judgement.verdicts] == [Status.HOLDS]
