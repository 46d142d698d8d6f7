from __future__ import annotations

from streamproof.harness.judging.incarnations import losses, still_there
from streamproof.harness.recording.history import Bite, FaultStruck, History, NodeGone, Placed, Stamp, TimelineEntry


def test_a_run_that_goes_on_is_asked_anew_who_was_lost() -> None:
    timeline: list[TimelineEntry] = [Placed(Stamp(10), "count-0", 1, "node-0")]
    history = History([], timeline)
    assert losses(history) == {}
    assert still_there(history) == {("count-0", 1)}
    timeline.append(NodeGone(Stamp(20), "node-0"))
    assert losses(history) == {("count-0", 1): 20}
    assert still_there(history) == frozenset()


def struck(node: str, at: int = 20) -> FaultStruck:
    return FaultStruck(Stamp(at), 0, f"crash {node}", None, Bite(node, node, ("count-0",), True, True))


def test_what_was_heard_late_happened_when_its_clock_says() -> None:
    began: list[TimelineEntry] = [Placed(Stamp(10), "count-0", 1, "node-0"), Placed(Stamp(30), "count-0", 2, "node-1")]
    assert losses(History([], [*began, NodeGone(Stamp(20), "node-0")])) == {("count-0", 1): 20}


def test_a_driver_takes_all_slices_with_it_and_a_node_that_they_have_left_takes_none() -> None:
    began = [Placed(Stamp(10), "count-0", 1, "node-0")]
    assert losses(History([], [*began, struck("driver")])) == {("count-0", 1): 20}
    moved = [*began, Placed(Stamp(15), "count-0", 2, "node-1")]
    assert losses(History([], [*moved, struck("node-0")])) == {("count-0", 1): 15}
