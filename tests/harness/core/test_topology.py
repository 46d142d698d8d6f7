"""A topology is checked when it is made, and knows who feeds whom."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from streamproof.harness.core.errors import InvalidOperator, InvalidTopology
from streamproof.harness.core.events import Event, Output, Value
from streamproof.harness.core.operators import Operator, backs_up_partly, measures_divergence, measures_many
from streamproof.harness.core.topology import Edge, Partitioning, Role, Stage, Topology
from streamproof.scenarios.random_draws import DrawNumber
from streamproof.scenarios.trace import Relay, trace

FULL, SPLIT, MERGE, ONE = Partitioning.FULL, Partitioning.SPLIT, Partitioning.MERGE, Partitioning.ONE_TO_ONE


def relays(*names: str, edges: tuple[Edge, ...], parallelism: int = 1, **ends: tuple[str, ...]) -> Topology:
    return Topology("t", {name: Stage(Relay(), parallelism) for name in names}, edges, **ends)


def line(*names: str, partitioning: Partitioning = FULL) -> tuple[Edge, ...]:
    return tuple(Edge(a, b, partitioning) for a, b in pairwise(names))


WRONG: dict[str, tuple[Callable[[], Topology], str]] = {
    "a cycle": (
        lambda: relays("a", "b", edges=(*line("source", "a", "b", "sink"), Edge("b", "a"))),
        "has a cycle through a, b",
    ),
    "an unknown name": (
        lambda: relays("a", edges=line("source", "a", "snik")),
        "an edge names 'snik'.*a, sink, source",
    ),
    "an operator without input": (lambda: relays("a", "b", edges=line("source", "a", "sink")), "'b' is not connected"),
    "an operator that feeds nobody": (
        lambda: relays("a", "b", edges=(*line("source", "a", "sink"), Edge("a", "b"))),
        "'b' is not connected on both sides",
    ),
    "a source with input": (
        lambda: relays("a", edges=line("source", "a", "sink") + line("a", "source")),
        "has an input",
    ),
    "a sink with output": (
        lambda: relays("a", "b", edges=(*line("source", "a", "sink", "b"), Edge("b", "sink"))),
        "has an output",
    ),
    "a pair connected twice": (
        lambda: relays("a", edges=line("source", "a", "sink") * 2),
        "connects two operators twice",
    ),
    "a name used twice": (lambda: relays("source", edges=line("source", "sink")), "uses a name twice"),
    "no slices": (lambda: relays("a", edges=line("source", "a", "sink"), parallelism=0), "parallelism 0"),
    "half a slice": (lambda: relays("a", edges=line("source", "a", "sink"), parallelism=1.5), "parallelism 1.5"),  # type: ignore[arg-type]
    "what is no operator": (
        lambda: Topology("t", {"a": Stage(len)}, line("source", "a", "sink")),  # type: ignore[arg-type]
        "derive it from",
    ),
    "a one-to-one edge between unequals": (
        lambda: relays("a", edges=line("source", "a", "sink", partitioning=ONE), parallelism=2),
        "cannot be one-to-one",
    ),
    "a split that does not come out even": (
        lambda: Topology(
            "t",
            {"a": Stage(Relay(), 2), "b": Stage(Relay(), 3)},
            (Edge("source", "a"), Edge("a", "b", SPLIT), Edge("b", "sink")),
        ),
        "cannot be split",
    ),
    "a merge that does not come out even": (
        lambda: Topology(
            "t",
            {"a": Stage(Relay(), 3), "b": Stage(Relay(), 2)},
            (Edge("source", "a"), Edge("a", "b", MERGE), Edge("b", "sink")),
        ),
        "cannot be merge",
    ),
    **{
        f"the name {name!r}": (lambda name=name: relays(name, edges=line("source", name, "sink")), "letters, digits")
        for name in ("", "a b", "a/b", "../a", "a>b", "a#1", "a\n")
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_a_topology_with_a_fault_is_refused_with_its_reason(name: str) -> None:
    make, reason = WRONG[name]
    with pytest.raises(InvalidTopology, match=reason):
        make()


def saying(operator: Operator[Any], **attributes: object) -> Topology:
    for name, value in attributes.items():
        setattr(operator, name, value)
    return Topology("t", {"a": Stage(operator)}, line("source", "a", "sink"))


@pytest.mark.parametrize(
    ("operator", "attribute", "value", "remedy"),
    [
        *((Relay, "fan_out", value, "a positive whole number, or None") for value in (0, -1, 1.0, True, "1")),
        *((Relay, "window", value, "a positive whole number, or None") for value in (0, -5, 2.5, False)),
        *((Relay, "order_sensitive", value, "True or False") for value in (None, 1, "no")),
        *((Relay, "deterministic", value, "True or False") for value in (None, 0)),
        (DrawNumber, "deterministic", True, "derive it from streamproof.Operator"),
    ],
)
def test_an_operator_that_says_of_itself_what_cannot_be_is_refused(
    operator: type[Operator[Any]], attribute: str, value: object, remedy: str
) -> None:
    with pytest.raises(InvalidOperator, match=remedy) as caught:
        saying(operator(), **{attribute: value})
    assert f"operator 'a': {attribute}={value!r}" in str(caught.value)


def test_what_an_operator_can_say_of_itself_is_let_through() -> None:
    saying(Relay(), fan_out=1, window=1, order_sensitive=True, deterministic=False)
    saying(Relay(), fan_out=None, window=None)
    saying(DrawNumber())


def test_slices_come_upstream_before_downstream() -> None:
    assert trace().slices == ("source-0", "relay-0", "trace-0", "trace-1", "sink-0")
    assert trace().operator_slices == ("relay-0", "trace-0", "trace-1")
    assert [trace().role(name) for name in ("source-0", "relay-0", "sink-0")] == [Role.SOURCE, Role.OPERATOR, Role.SINK]


@pytest.mark.parametrize(
    ("partitioning", "ups", "downs", "fed"),
    [
        (ONE, 2, 2, {0: [0], 1: [1]}),
        (SPLIT, 2, 4, {0: [0, 1], 1: [2, 3]}),
        (MERGE, 4, 2, {0: [0], 1: [0], 2: [1], 3: [1]}),
        (FULL, 2, 3, {0: [0, 1, 2], 1: [0, 1, 2]}),
    ],
)
def test_partitioning_says_who_feeds_whom(
    partitioning: Partitioning, ups: int, downs: int, fed: dict[int, list[int]]
) -> None:
    topology = Topology(
        "t",
        {"a": Stage(Relay(), ups), "b": Stage(Relay(), downs)},
        (Edge("source", "a"), Edge("a", "b", partitioning), Edge("b", "sink")),
    )
    for up, receivers in fed.items():
        assert topology.downstream(f"a-{up}") == tuple(f"b-{down}" for down in receivers)
        reached = {to for key in range(50) for to in topology.receivers(f"a-{up}", str(key))}
        assert reached == set(topology.downstream(f"a-{up}")), "every receiver gets some keys"
        assert all(len(topology.receivers(f"a-{up}", str(key))) == 1 for key in range(50)), "and a key has one"
    for down in range(downs):
        assert topology.upstream(f"b-{down}") == tuple(f"a-{up}" for up in fed if down in fed[up])


def test_an_output_goes_once_down_every_edge() -> None:
    topology = relays("a", "b", "c", edges=(*line("source", "a", "b", "sink"), *line("a", "c", "sink")))
    assert topology.receivers("a-0", "k") == ("b-0", "c-0")
    assert isinstance(topology.stages["a"].operator, Operator)


class Measured(Operator[dict[str, int]]):
    """Counts keys, and says how far two counts are from each other."""

    alpha = 1.0

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> list[Output]:
        state[event.key] = state.get(event.key, 0) + 1
        return []

    def divergence(self, state: dict[str, int], backup: dict[str, int]) -> float:
        return max((abs(count - backup.get(key, 0)) for key, count in state.items()), default=0)


def test_an_operator_says_how_far_two_states_are_from_each_other() -> None:
    counts = Measured()
    assert measures_divergence(counts)
    assert counts.divergence_after(Event("s", 1, "a", 1, 0), {"a": 3}, {"a": 1}, 1.0) == 2
    assert not backs_up_partly(counts)
    assert measures_many(counts)
    assert counts.divergence_after_all([Event("s", 1, "a", 1, 0)] * 2, {"a": 3}, {"a": 1}, 0.0) == 2
    with pytest.raises(InvalidOperator, match="Measured has no partial backups"):
        counts.delta({}, {})


def test_who_says_anew_how_far_one_event_moves_a_state_does_not_inherit_what_many_do() -> None:
    class OfEach(Measured):
        def divergence_after(self, event: Event, state: dict[str, int], backup: dict[str, int], before: float) -> float:
            return before + 1

    class OfMany(OfEach):
        def divergence_after_all(
            self, events: Sequence[Event], state: dict[str, int], backup: dict[str, int], before: float
        ) -> float:
            return before + len(events)

    class OfEachAgain(OfMany):
        def divergence_after(self, event: Event, state: dict[str, int], backup: dict[str, int], before: float) -> float:
            return before + 2

    assert [measures_many(one()) for one in (OfEach, OfMany, OfEachAgain)] == [False, True, False]


@pytest.mark.parametrize("alpha", [-1, True, float("nan"), float("inf"), "much"])
def test_alpha_is_a_number_that_is_not_negative(alpha: object) -> None:
    class Other(Measured):
        pass

    Other.alpha = alpha  # type: ignore[assignment]
    with pytest.raises(InvalidOperator, match=r"operator 'it': alpha=.* must be a number, 0 or more"):
        Topology("t", {"it": Stage(Other())}, (Edge("source", "it"), Edge("it", "sink")))


def test_an_operator_with_half_a_partial_backup_is_refused() -> None:
    class Half(Measured):
        def delta(self, state: dict[str, int], backup: dict[str, int]) -> Value:
            return []

    with pytest.raises(InvalidOperator, match=r"'it': delta\(\) and apply_delta\(\) go together"):
        Topology("t", {"it": Stage(Half())}, (Edge("source", "it"), Edge("it", "sink")))
