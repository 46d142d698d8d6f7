"""A kind of fault of a user's: what it did is what the cluster says that it did."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from streamproof.faults import partition as partitions
from streamproof.faults import pause as pauses
from streamproof.faults.crash import KIND, crash
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.harness.contracts.injection import Aims, DrawFault, FaultKind, Link, Machines
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidFault, Unsupported
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.history import Bite, FaultStruck, History
from streamproof.harness.running.judgement import Judgement
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered
from verdicts_of import JUDGES


def _struck_by(inflict: Callable[[Machines, Fault], list[Bite]], *targets: str) -> tuple[History, Judgement]:
    fault = crash(*targets or ("trace-0",)).after(events(20))
    return _struck(fault, replace(KIND, inflict=inflict))


def _struck(fault: Fault, kind: FaultKind) -> tuple[History, Judgement]:
    subject = passive_replication(trace(), checkpoint_every=events(8))
    scenario = Scenario(subject, numbered(events=60, batch=4), [fault])
    return run_in_memory(scenario, SimulatedCluster(), {kind.name: kind}, JUDGES, seed=1)


def _bitten(fault: Fault) -> Bite:
    return Bite(fault.targets[0], "node-0", ("trace-0",), True, gone=True)


def _says_so(machines: Machines, fault: Fault) -> list[Bite]:
    return [_bitten(fault)]


def _says_more(machines: Machines, fault: Fault) -> list[Bite]:
    return [*machines.crash(fault.targets), _bitten(fault)]


def _says_less(machines: Machines, fault: Fault) -> list[Bite]:
    machines.crash(fault.targets)
    return machines.crash(["nobody"])


def _changes_what_it_was_given(machines: Machines, fault: Fault) -> list[Bite]:
    machines.crash(["nobody"])[0] = _bitten(fault)
    return [_bitten(fault)]


def _does_nothing(machines: Machines, fault: Fault) -> list[Bite]:
    return []


def _strikes_somebody_else(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.crash(["relay-0"])


def _strikes_one_more(machines: Machines, fault: Fault) -> list[Bite]:
    return [*machines.crash(fault.targets), *machines.pause(["relay-0"])]


def _cuts_others(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.cut([Link("relay-0", fault.targets[0])])


def _raises(machines: Machines, fault: Fault) -> list[Bite]:
    raise ZeroDivisionError("by hand")


@pytest.mark.parametrize(
    ("inflict", "said"),
    [
        (_says_so, "the fault crash did nothing to the cluster"),
        (_says_more, "the fault crash returned .* as its proofs, and the cluster gave "),
        (_says_less, "the fault crash returned .* as its proofs, and the cluster gave "),
        (_changes_what_it_was_given, "the fault crash returned .* as its proofs, and the cluster gave "),
        (_does_nothing, "the fault crash did nothing to the cluster"),
        (_strikes_somebody_else, "the fault crash strikes relay-0, which it does not name: .*`crash trace-0, once"),
        (_strikes_one_more, "the fault crash strikes relay-0, which it does not name"),
        (_cuts_others, "the fault crash strikes relay-0, which it does not name"),
        (_raises, "the fault crash failed: ZeroDivisionError: by hand"),
    ],
)
def test_one_that_says_what_the_cluster_did_not_is_refused(
    inflict: Callable[[Machines, Fault], list[Bite]], said: str
) -> None:
    with pytest.raises(InvalidFault, match=said):
        _struck_by(inflict)


def test_one_that_does_not_strike_all_whom_it_names_is_refused() -> None:
    with pytest.raises(InvalidFault, match="the fault crash does not strike relay-0: "):
        _struck_by(lambda machines, fault: machines.crash(fault.targets[:1]), "trace-0", "relay-0")


def test_one_that_strikes_each_in_its_own_way_bites() -> None:
    def inflict(machines: Machines, fault: Fault) -> list[Bite]:
        first, second = fault.targets
        return [*machines.crash([first]), *machines.pause([second])]

    history, _ = _struck_by(inflict, "trace-0", "relay-0")
    assert [entry.bite.target for entry in history.timeline if isinstance(entry, FaultStruck)] == ["trace-0", "relay-0"]


def _cuts(*links: Link) -> FaultKind:
    return replace(partitions.KIND, inflict=lambda machines, fault: machines.cut(links))


@pytest.mark.parametrize(
    ("fault", "link", "said"),
    [
        (
            partition("relay-0", "trace-0"),
            Link("relay-0", "trace-0", one_way=True),
            "strikes what passes from relay-0 to trace-0, and is to strike what passes from relay-0 to trace-0 and "
            "from trace-0 to relay-0",
        ),
        (
            partition("relay-0", "trace-0", one_way=True),
            Link("relay-0", "trace-0"),
            "strikes what passes from relay-0 to trace-0 and from trace-0 to relay-0, and is to strike what passes "
            "from relay-0 to trace-0: .*`partition relay-0 to trace-0, once",
        ),
        (
            partition("relay-0", "trace-0", one_way=True),
            Link("trace-0", "relay-0", one_way=True),
            "strikes what passes from trace-0 to relay-0, and is to strike what passes from relay-0 to trace-0",
        ),
    ],
)
def test_one_that_cuts_another_way_than_it_says_is_refused(fault: Fault, link: Link, said: str) -> None:
    with pytest.raises(InvalidFault, match=f"the fault partition {said}"):
        _struck(fault.after(events(20)), _cuts(link))


def test_one_that_cuts_each_way_by_itself_cuts_both() -> None:
    def inflict(machines: Machines, fault: Fault) -> list[Bite]:
        first, second = fault.targets
        return [
            bite for link in (Link(first, second, True), Link(second, first, True)) for bite in machines.cut([link])
        ]

    history, _ = _struck(
        partition("relay-0", "trace-0").after(events(20)).lasting(ms(2)), replace(partitions.KIND, inflict=inflict)
    )
    assert len(list(history.struck())) == 2


def test_one_that_cuts_several_links_at_once_is_told_that_the_cluster_cannot() -> None:
    fault = partition("relay-0", "trace-0").after(events(20))
    link = Link("relay-0", "trace-0")
    with pytest.raises(Unsupported, match="this cluster cannot cut 2 links between slices by one call, but one: call"):
        _struck(fault, _cuts(link, link))


def test_what_one_does_to_a_target_in_several_ways_is_proven_of_each() -> None:
    def inflict(machines: Machines, fault: Fault) -> list[Bite]:
        return [*machines.fail_writes(fault.targets), *machines.pause(fault.targets)]

    kind = replace(pauses.KIND, inflict=inflict)
    history, judgement = _struck(pause("trace-0").after(events(1)).lasting(ms(1)), kind)
    assert [(str(entry.bite.proof), entry.bite.bit) for entry in history.struck()] == [
        ("writes refused: 0", False),
        ("actions put off: 5", True),
    ]
    assert {verdict.status for verdict in judgement.verdicts} == {Status.UNKNOWN}


def test_one_that_returns_what_it_was_given_bites() -> None:
    history, judgement = _struck_by(lambda machines, fault: [*machines.crash(fault.targets)])
    (struck,) = (entry for entry in history.timeline if isinstance(entry, FaultStruck))
    assert struck.bite.bit
    assert {verdict.status for verdict in judgement.verdicts} == {Status.HOLDS}


def _draws_nothing(random: Random, aims: Aims) -> Fault:
    return None  # type: ignore[return-value]


def _fails_to_draw(random: Random, aims: Aims) -> Fault:
    raise KeyError("nobody")


def _draws_another_kind(random: Random, aims: Aims) -> Fault:
    return Fault("pause", aims.some(random))


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (_draws_nothing, "where a crash was to be drawn, its draw() gave None"),
        (_fails_to_draw, "no crash could be drawn: KeyError: 'nobody'"),
        (_draws_another_kind, "where a crash was to be drawn, its draw() gave Fault(kind='pause'"),
    ],
)
def test_a_kind_that_does_not_draw_one_of_its_own_is_said_to(draw: DrawFault, said: str) -> None:
    aims = Aims(("trace-0",), (), ("node-0",), ms(9), ms(9))
    with pytest.raises(InvalidFault, match=re.escape(said)):
        replace(KIND, draw=draw).drawn_fault(Random(7), aims)
