"""Placement and promotion keep their promises whatever joins, dies and reports, in any order."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.protocol.manager import (
    ActiveReplicas,
    Announce,
    Manager,
    ManagerEffect,
    ManagerInput,
    NodeJoined,
    NodeLost,
    PlaceSlice,
    PromoteSlice,
    SayStopped,
    SliceFenced,
    SliceReady,
    SliceUp,
    TogetherFrom,
    Trust,
    WaitedEnough,
    Withdraw,
)
from streamproof.harness.protocol.placement import Placement

SLICES = ("split-0", "count-0", "count-1")
WANTED = 2
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 4)),
        st.tuples(st.just("lose"), st.integers(0, 4)),
        st.tuples(st.just("up"), st.integers(0, 30)),
        st.tuples(st.just("ready"), st.integers(0, 30)),
    ),
    max_size=80,
)


class Observer:
    """Holds what the manager says against what it has said before."""

    def __init__(self, replicas: int, active_replicas: ActiveReplicas) -> None:
        self.manager = Manager(SLICES, WANTED, replicas, active_replicas)
        self.replicas, self.active_replicas = replicas, active_replicas
        self.live: set[str] = set()
        self.begun = False
        self.earlier: list[PlaceSlice] = []
        """What another manager has placed."""
        self.placed: list[PlaceSlice] = []
        self.members: dict[str, dict[int, PlaceSlice]] = {name: {} for name in SLICES}
        self.up: set[PlaceSlice] = set()
        self.ready: set[PlaceSlice] = set()
        self.active: dict[str, set[int]] = {name: set() for name in SLICES}

    def happen(self, step: str, number: int) -> None:
        node = f"node-{number}"
        if step == "join":
            self.live.add(node)
            # A node that joins again has forgotten everything.
            self.give(NodeJoined(node), self.on_node(node))
        elif step == "lose":
            self.live.discard(node)
            self.give(NodeLost(node), self.on_node(node))
        elif self.placed:
            place = self.placed[number % len(self.placed)]
            if step == "up":
                self.up.add(place)
                self.give(SliceUp(place.slice_id, place.incarnation), ())
            elif place in self.up:
                self.ready.add(place)
                self.give(SliceReady(place.slice_id, place.incarnation), ())
        self.check()

    def on_node(self, node: str) -> list[PlaceSlice]:
        return [p for members in self.members.values() for p in members.values() if p.node == node]

    def give(self, given: ManagerInput, lost: Sequence[PlaceSlice]) -> None:
        effects = self.manager.on(given)
        withdrawn = [e for e in effects if isinstance(e, Withdraw)]
        assert {(e.slice_id, e.incarnation) for e in withdrawn} == {(p.slice_id, p.incarnation) for p in lost}
        assert len(withdrawn) == len(lost)
        for place in lost:
            del self.members[place.slice_id][place.incarnation]
            self.active[place.slice_id].discard(place.incarnation)
        self.begun = self.begun or len(self.live) >= WANTED
        for effect in effects:
            self.follow(effect)

    def follow(self, effect: ManagerEffect) -> None:
        members = self.members[effect.slice_id]
        match effect:
            case PlaceSlice():
                assert effect.node in self.live
                assert effect.node not in {p.node for p in members.values()}, "replicas stand apart"
                assert effect.replica not in {p.replica for p in members.values()}
                assert 0 <= effect.replica < self.replicas
                earlier = [p.incarnation for p in (*self.earlier, *self.placed) if p.slice_id == effect.slice_id]
                assert effect.incarnation == max(earlier, default=0) + 1
                assert effect.initial == (not members), "nobody founds what somebody else holds"
                self.placed.append(effect)
                members[effect.incarnation] = effect
            case PromoteSlice():
                chosen = members[effect.incarnation]
                assert chosen.node == effect.node
                assert chosen in self.up
                assert not self.active[effect.slice_id]
                in_sync = [p for p in members.values() if p in self.up and p in self.ready]
                assert chosen in in_sync or not in_sync, "who is in sync comes first"
                self.active[effect.slice_id].add(effect.incarnation)
            case Announce():
                place = members[effect.incarnation]
                assert place.node == effect.node
                assert place in self.up
                if effect.active:
                    self.active[effect.slice_id].add(effect.incarnation)
                assert effect.active == (effect.incarnation in self.active[effect.slice_id]), "who is active stays so"

    def check(self) -> None:
        for slice_id, members in self.members.items():
            expected = min(self.replicas, len(self.live)) if self.begun else 0
            assert len(members) == expected, "every replica has a home while there are nodes enough"
            active = self.active[slice_id]
            if self.active_replicas is ActiveReplicas.ONE:
                assert len(active) <= 1
            there = [p for p in members.values() if p in self.up]
            about_to = any(p.initial for p in members.values())
            assert active or about_to or not there, "somebody is active, if anybody can be"


@given(happenings, st.integers(1, 3), st.sampled_from(ActiveReplicas))
def test_whatever_happens_replicas_stand_apart_and_somebody_is_active(
    steps: list[tuple[str, int]], replicas: int, active_replicas: ActiveReplicas
) -> None:
    observer = Observer(replicas, active_replicas)
    for step, number in steps:
        observer.happen(step, number)


def places(effects: Iterable[ManagerEffect]) -> list[tuple[str, str]]:
    return [(p.slice_id, p.node) for p in effects if isinstance(p, PlaceSlice)]


def test_a_slice_of_a_lost_node_goes_to_a_spare_one_first() -> None:
    manager = Manager(SLICES, 4)
    placed = [effect for i in range(4) for effect in manager.on(NodeJoined(f"node-{i}"))]
    assert places(placed) == [("split-0", "node-0"), ("count-0", "node-1"), ("count-1", "node-2")]
    assert manager.on(NodeLost("node-1")) == [
        Withdraw("count-0", 1),
        PlaceSlice("count-0", 0, 2, "node-3", initial=True),
    ]


def test_slices_without_a_node_wait_for_the_next_to_join() -> None:
    manager = Manager(SLICES, 1)
    manager.on(NodeJoined("node-0"))
    assert manager.on(NodeLost("node-0")) == [Withdraw(name, 1) for name in SLICES]
    assert manager.on(NodeLost("node-0")) == [], "hearing of it twice changes nothing"
    assert manager.on(NodeJoined("node-1")) == [PlaceSlice(name, 0, 2, "node-1", initial=True) for name in SLICES]


def test_the_standby_in_sync_is_promoted_and_the_replica_that_returns_stands_by() -> None:
    manager = Manager(("count-0",), 3, replicas=3)
    for i in range(3):
        manager.on(NodeJoined(f"node-{i}"))
    for incarnation in (1, 2, 3):
        manager.on(SliceUp("count-0", incarnation))
    for incarnation in (1, 3):
        assert manager.on(SliceReady("count-0", incarnation)) == [Trust("count-0", incarnation)]
        assert manager.on(SliceReady("count-0", incarnation)) == [], "it is known"
    assert manager.on(NodeLost("node-0")) == [
        Withdraw("count-0", 1),
        PromoteSlice("count-0", 3, "node-2"),
        Announce("count-0", 3, "node-2", active=True),
    ]
    assert manager.on(NodeJoined("node-0")) == [PlaceSlice("count-0", 0, 4, "node-0", initial=False)]
    assert manager.on(SliceUp("count-0", 4)) == [Announce("count-0", 4, "node-0", active=False)]


def test_where_all_are_active_a_replica_that_returns_is_so_when_it_is_in_sync() -> None:
    manager = Manager(("count-0",), 2, replicas=2, active_replicas=ActiveReplicas.ALL)
    for i in range(2):
        manager.on(NodeJoined(f"node-{i}"))
    assert manager.on(SliceUp("count-0", 1)) == [Announce("count-0", 1, "node-0", active=True)]
    assert manager.on(SliceUp("count-0", 2)) == [Announce("count-0", 2, "node-1", active=False)]
    assert manager.on(SliceReady("count-0", 2)) == [
        Trust("count-0", 2),
        Announce("count-0", 2, "node-1", active=True),
    ]
    assert manager.on(NodeLost("node-0")) == [Withdraw("count-0", 1)]


@given(happenings, happenings, st.integers(1, 3), st.sampled_from(ActiveReplicas))
def test_a_manager_that_comes_back_gives_out_no_number_again(
    before: list[tuple[str, int]], after: list[tuple[str, int]], replicas: int, active_replicas: ActiveReplicas
) -> None:
    observer = Observer(replicas, active_replicas)
    for step, number in before:
        observer.happen(step, number)
    given_out = {(place.slice_id, place.incarnation) for place in observer.placed}

    successor = Observer(replicas, active_replicas)
    successor.manager = Manager(SLICES, WANTED, replicas, active_replicas, observer.manager.newest)
    # All that has been placed is gone, and nobody has joined.
    successor.earlier = list(observer.placed)
    for step, number in after:
        successor.happen(step, number)
    again = {(place.slice_id, place.incarnation) for place in successor.placed}
    assert not given_out & again


def test_a_manager_that_comes_back_makes_do_with_the_nodes_that_are_left() -> None:
    manager = Manager(SLICES, 3, newest={"split-0": 4, "count-0": 1})
    assert manager.on(NodeJoined("node-0")) == []
    assert manager.on(WaitedEnough()) == [
        PlaceSlice("split-0", 0, 5, "node-0", initial=True),
        PlaceSlice("count-0", 0, 2, "node-0", initial=True),
        PlaceSlice("count-1", 0, 1, "node-0", initial=True),
    ]
    assert manager.on(WaitedEnough()) == []


def test_where_nobody_has_joined_the_first_that_does_is_enough_once_it_was_waited_for_long_enough() -> None:
    manager = Manager(("count-0",), 3)
    assert manager.on(WaitedEnough()) == []
    assert places(manager.on(NodeJoined("node-0"))) == [("count-0", "node-0")]


def test_one_that_the_store_does_not_let_be_active_is_placed_again() -> None:
    manager = Manager(("count-0",), 3, replicas=2)
    for i in range(3):
        manager.on(NodeJoined(f"node-{i}"))
    manager.on(SliceUp("count-0", 1))
    manager.on(NodeLost("node-0"))
    manager.on(SliceUp("count-0", 3))
    assert manager.on(NodeLost("node-2")) == [
        Withdraw("count-0", 3),
    ], "2 is not there yet, and 3 has been active"
    assert manager.on(SliceUp("count-0", 2))[1:] == [
        PromoteSlice("count-0", 2, "node-1"),
        Announce("count-0", 2, "node-1", active=True),
    ]
    assert manager.on(SliceFenced("count-0", 2)) == [
        Withdraw("count-0", 2),
        PlaceSlice("count-0", 0, 4, "node-1", initial=True),
    ]
    assert manager.on(SliceFenced("count-0", 2)) == [], "it is known"


def placed(effects: Sequence[ManagerEffect]) -> dict[str, tuple[int, str, int | None]]:
    return {e.slice_id: (e.incarnation, e.node, e.cut) for e in effects if isinstance(e, PlaceSlice)}


def led(newest: Mapping[str, int] = MappingProxyType({})) -> Manager:
    manager = Manager(("a-0", "b-0"), 3, newest=newest, coordinators=("cuts",), restarts_by="cuts")
    for node in ("node-0", "node-1", "node-2"):
        manager.on(NodeJoined(node))
    return manager


def test_a_coordinator_is_placed_after_the_slices_and_is_never_behind() -> None:
    manager = Manager(("a-0", "b-0"), 3, coordinators=("cuts",))
    manager.on(NodeJoined("node-0"))
    manager.on(NodeJoined("node-1"))
    effects = manager.on(NodeJoined("node-2"))
    assert placed(effects) == {"a-0": (1, "node-0", None), "b-0": (1, "node-1", None), "cuts": (1, "node-2", None)}
    for name in ("a-0", "b-0", "cuts"):
        assert Announce(name, 1, manager.node_of[name], True) in manager.on(SliceUp(name, 1))
    assert {name for name, _ in manager.behind} == {"a-0", "b-0"}
    assert set(placed(manager.on(NodeLost("node-2")))) == {"cuts"}


def test_the_loss_of_one_stops_all_until_it_is_said_where_they_go_on() -> None:
    manager = led()
    manager.on(SliceUp("cuts", 1))
    effects = manager.on(NodeLost("node-0"))
    assert effects == [Withdraw("a-0", 1), Withdraw("b-0", 1, "node-1"), SayStopped("cuts", 1, "node-2", 1)]
    assert manager.on(TogetherFrom("cuts", 1, 0, 5)) == [], "that answers no stop"
    assert placed(manager.on(TogetherFrom("cuts", 1, 1, 5))) == {"a-0": (2, "node-1", 5), "b-0": (2, "node-1", 5)}
    assert manager.on(TogetherFrom("cuts", 1, 0, 5)) == []


def test_one_that_is_started_while_all_stand_still_is_asked() -> None:
    manager = led()
    effects = manager.on(NodeLost("node-2"))
    assert placed(effects) == {"cuts": (2, "node-0", None)}, "slices go on without it"
    assert placed(manager.on(NodeLost("node-1"))) == {}
    assert manager.on(TogetherFrom("cuts", 1, 1, 5)) == [], "it is gone"
    assert SayStopped("cuts", 2, "node-0", 1) in manager.on(SliceUp("cuts", 2))
    assert set(placed(manager.on(TogetherFrom("cuts", 2, 1, 0)))) == {"a-0", "b-0"}


def test_a_manager_that_comes_back_asks_where_they_go_on() -> None:
    manager = led({"a-0": 3, "b-0": 1, "cuts": 2})
    assert manager.node_of == {"cuts": "node-0"}
    assert SayStopped("cuts", 3, "node-0", 1) in manager.on(SliceUp("cuts", 3))
    assert placed(manager.on(TogetherFrom("cuts", 3, 1, 7))) == {"a-0": (4, "node-1", 7), "b-0": (2, "node-2", 7)}


def test_a_coordinator_may_restart_them_by_itself() -> None:
    manager = led()
    effects = manager.on(TogetherFrom("cuts", 1, 0, 2))
    assert effects[:2] == [Withdraw("a-0", 1, "node-0"), Withdraw("b-0", 1, "node-1")]
    assert placed(effects) == {"a-0": (2, "node-0", 2), "b-0": (2, "node-1", 2)}


@pytest.mark.parametrize(("placement", "most"), [(Placement.INTERLEAVED, 1), (Placement.CHAINED, 3)])
def test_secondaries_stand_as_the_placement_says(placement: Placement, most: int) -> None:
    """With a node less than there are nodes for primaries: each other gets one of its slices, or the next one all."""
    slices = [f"a-{place}" for place in range(12)]
    nodes = [f"node-{place}" for place in range(4)]
    manager = Manager(slices, 4, replicas=2, placement=placement)
    for node in nodes:
        manager.on(NodeJoined(node))
    where = manager.node_of
    for node in nodes:
        primaries = [name for name in slices if where[name] == node]
        assert len(primaries) == 3
        beside = Counter(where[f"{name}/1"] for name in primaries)
        assert node not in beside
        assert max(beside.values()) == most
    effects = manager.on(NodeLost("node-0"))
    assert all(where[f"{e.slice_id}/1"] == e.node for e in effects if isinstance(e, PromoteSlice))
