"""Placement keeps its promises whatever joins, dies and reports, in any order."""

from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.manager import Announce, Manager, NodeJoined, NodeLost, Place, SliceUp

SLICES = ("split-0", "count-0", "count-1")
WANTED = 2
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 4)),
        st.tuples(st.just("lose"), st.integers(0, 4)),
        st.tuples(st.just("up"), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(happenings)
def test_every_slice_has_one_home_that_lives_and_a_number_of_its_own(steps: list[tuple[str, int]]) -> None:
    manager = Manager(SLICES, WANTED)
    live: set[str] = set()
    begun = False
    placed: list[Place] = []
    home: dict[str, Place] = {}
    for step, number in steps:
        node = f"node-{number}"
        if step == "join" and node not in live:
            live.add(node)
            effects = manager.on(NodeJoined(node))
        elif step == "lose":
            live.discard(node)
            home = {name: place for name, place in home.items() if place.node in live}
            effects = manager.on(NodeLost(node))
        elif step == "up" and placed:
            report = placed[number % len(placed)]
            effects = manager.on(SliceUp(report.slice_id, report.incarnation))
            current = home.get(report.slice_id) == report
            assert effects == ([Announce(report.slice_id, report.incarnation, report.node)] if current else [])
            continue
        else:
            continue
        begun = begun or len(live) >= WANTED
        for effect in effects:
            assert isinstance(effect, Place)
            assert effect.node in live
            assert effect.slice_id not in home, "it has a home that lives"
            earlier = [p.incarnation for p in placed if p.slice_id == effect.slice_id]
            assert effect.incarnation == max(earlier, default=0) + 1
            placed.append(effect)
            home[effect.slice_id] = effect
        assert (set(home) == set(SLICES)) == (begun and bool(live)), "each is placed as soon as a node is there"


def test_a_slice_of_a_lost_node_goes_to_a_spare_one_first() -> None:
    manager = Manager(SLICES, 4)
    placed = [effect for i in range(4) for effect in manager.on(NodeJoined(f"node-{i}"))]
    assert [(p.slice_id, p.node) for p in placed if isinstance(p, Place)] == [
        ("split-0", "node-0"),
        ("count-0", "node-1"),
        ("count-1", "node-2"),
    ]
    assert manager.on(NodeLost("node-1")) == [Place("count-0", 2, "node-3")]


def test_slices_without_a_node_wait_for_the_next_to_join() -> None:
    manager = Manager(SLICES, 1)
    manager.on(NodeJoined("node-0"))
    assert manager.on(NodeLost("node-0")) == []
    assert manager.on(NodeLost("node-0")) == [], "hearing of it twice changes nothing"
    assert manager.on(NodeJoined("node-1")) == [Place(name, 2, "node-1") for name in SLICES]
