"""What only a type checker would catch is refused before anything runs."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import pytest

from streamproof.harness.contracts.claims import Claim
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidOperator, InvalidScenario, InvalidTopology, UnknownName, UserMistake
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.quantities import Duration, Events, events, seconds
from streamproof.harness.core.topology import Edge, Role, Stage, Topology
from streamproof.harness.core.workload import Workload
from streamproof.harness.protocol.spec import Setup
from streamproof.reference_impls import SCHEMES
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.mechanisms.merges import ByTime, RoundRobin
from streamproof.reference_impls.mechanisms.output_log import OutputLog
from streamproof.reference_impls.mechanisms.replicas import Replicas
from streamproof.reference_impls.mechanisms.tracking import Track
from streamproof.scenarios.order import order
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.trace import Relay
from streamproof.scenarios.windows import windows
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import numbered, single_words, text, words

BY_NAME = {entry.name: entry.make for entry in SCHEMES}
SETTINGS = [
    (scheme, parameter.name)
    for scheme, make in BY_NAME.items()
    for parameter in signature(make).parameters.values()
    if parameter.name != "topology"
]
OF_NO_SETTING = (None, -1, 0, 1.5, "x", seconds(0), RoundRobin, ByTime)
RIGHT: dict[tuple[str, str], tuple[Any, ...]] = {
    **{("approximate", threshold): (0, 1.5) for threshold in ("theta", "l", "gamma")},
    ("approximate", "window"): (None,),
    ("approximate", "weights"): (None,),
    ("transactional-sink", "commit_every"): (None,),
    ("approximate", "ahead"): (0,),
}
"""Some of these are settings all the same."""


@pytest.mark.parametrize("scheme", BY_NAME)
@pytest.mark.parametrize("topology", [None, "word-count", word_count])
def test_a_scheme_refuses_what_is_no_topology(scheme: str, topology: Any) -> None:
    with pytest.raises(UserMistake, match="as word_count"):
        BY_NAME[scheme](topology)


@pytest.mark.parametrize(("scheme", "setting"), SETTINGS)
@pytest.mark.parametrize("value", OF_NO_SETTING, ids=repr)
def test_a_scheme_refuses_a_setting_of_another_kind(scheme: str, setting: str, value: Any) -> None:
    if any(value is right for right in RIGHT.get((scheme, setting), ())):
        BY_NAME[scheme](stateless(), **{setting: value})
        return
    with pytest.raises(InvalidScenario, match=setting):
        BY_NAME[scheme](stateless(), **{setting: value})


def test_precise_recovery_is_not_claimed_where_channels_meet_without_a_merge() -> None:
    with pytest.raises(InvalidScenario, match=r"merge of active replication cannot be None.*another order"):
        active_replication(order(), merge=None)  # type: ignore[arg-type]


SUBJECT = amnesia(word_count())
LINE = (Edge("source", "a"), Edge("a", "sink"))


def topology(**given: Any) -> Topology:
    return Topology(**{"name": "t", "stages": {"a": Stage(Relay())}, "edges": LINE} | given)


def scenario(**given: Any) -> Scenario:
    return Scenario(**{"subject": SUBJECT, "workload": text()} | given)


WRONG: dict[str, tuple[Callable[[], object], type[UserMistake], str]] = {
    "no events": (lambda: Events(0), InvalidScenario, r"events\(0\)"),
    "fewer than no events": (lambda: Events(-3), InvalidScenario, r"events\(-3\)"),
    "time that runs backwards": (lambda: Duration(-5), InvalidScenario, r"Duration\(-5\)"),
    "a weight of nothing": (lambda: RoundRobin((3, 0)), InvalidTopology, "one of the weights .* cannot be 0"),
    "weights without a list": (lambda: RoundRobin(3), InvalidTopology, "weights cannot be 3"),  # type: ignore[arg-type]
    "no attempt": (lambda: Track(seconds(1), 0), InvalidScenario, "attempts cannot be 0"),
    "a mechanism without a list": (lambda: Setup(OutputLog()), InvalidScenario, "mechanisms"),  # type: ignore[arg-type]
    "the class of a mechanism": (lambda: Setup((OutputLog,)), InvalidScenario, "a mechanism"),  # type: ignore[arg-type]
    "a switch of text": (
        lambda: Replicas(keep_checkpoints="no"),  # type: ignore[arg-type]
        InvalidScenario,
        "keep_checkpoints",
    ),
    "numbering by name": (lambda: Setup(numbering="x"), InvalidScenario, "a Numbering"),  # type: ignore[arg-type]
    "a subject of no replica": (lambda: replace(SUBJECT, replicas=0), InvalidScenario, "replicas cannot be 0"),
    "the setup of one role": (
        lambda: replace(SUBJECT, setups={Role.OPERATOR: Setup()}),
        InvalidScenario,
        r"setups\[source\] cannot be None",
    ),
    "the setup of no role": (
        lambda: replace(SUBJECT, setups={**SUBJECT.setups, "count": Setup()}),  # type: ignore[dict-item]
        InvalidScenario,
        "a key of setups cannot be 'count'",
    ),
    "the setup of an operator that is not there": (
        lambda: replace(SUBJECT, operators={"cuont": Setup()}),
        UnknownName,
        "operator with settings 'cuont'",
    ),
    "a guarantee for a claim": (
        lambda: replace(SUBJECT, claims=(exactly_once(),)),  # type: ignore[arg-type]
        InvalidScenario,
        "a claim of a subject",
    ),
    "a claim of a text": (lambda: Claim("exactly-once"), InvalidScenario, "what is claimed"),  # type: ignore[arg-type]
    "a scenario of a topology": (lambda: scenario(subject=word_count()), InvalidScenario, "the subject of a scenario"),
    "a scenario of a maker": (lambda: scenario(workload=text), InvalidScenario, "the workload of a scenario"),
    "no deadline": (lambda: scenario(deadline=seconds(0)), InvalidScenario, "deadline"),
    "no name": (lambda: topology(name=""), InvalidTopology, "needs a name"),
    "an operator without a stage": (lambda: topology(stages={"a": Relay()}), InvalidTopology, "operator 'a' cannot be"),
    "true parallelism": (
        lambda: topology(stages={"a": Stage(Relay(), True)}),
        InvalidTopology,
        "parallelism True",
    ),
    "pairs for edges": (lambda: topology(edges=(("source", "a"),)), InvalidTopology, "an edge cannot be"),
    "a partitioning with a slip": (
        lambda: topology(edges=(Edge("source", "a", "ful"), Edge("a", "sink"))),  # type: ignore[arg-type]
        InvalidTopology,
        "the partitioning of .* cannot be 'ful'",
    ),
    "one source as text": (lambda: topology(sources="source"), InvalidTopology, "sources cannot be 'source'"),
    "no group": (lambda: order(groups=0), InvalidTopology, "groups cannot be 0"),
    "no window": (lambda: windows(window=None), InvalidOperator, "window cannot be None"),  # type: ignore[arg-type]
    "no key": (lambda: numbered(keys=0), InvalidScenario, "keys cannot be 0"),
    "no word": (lambda: words(0), InvalidScenario, "vocabulary cannot be 0"),
    "no single word": (lambda: single_words(0), InvalidScenario, "vocabulary cannot be 0"),
    "a seed of text": (lambda: text(seed="x"), InvalidScenario, "seed cannot be 'x'"),  # type: ignore[arg-type]
    "spacing of all": (lambda: numbered(spacing=3), InvalidScenario, "spacing cannot be 3"),  # type: ignore[arg-type]
    "nothing to draw with": (lambda: Workload("w", 1, 1, None), InvalidScenario, "draw=None"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", WRONG)
def test_parts_of_another_kind_than_declared_are_refused(what: str) -> None:
    make, mistake, message = WRONG[what]
    with pytest.raises(mistake, match=message):
        make()


def test_settings_of_the_right_kind_are_taken() -> None:
    subject = active_replication(order(), acknowledge_every=events(5), merge=RoundRobin((2, 1)), silence=seconds(0.1))
    assert isinstance(subject, SchemeSubject)
