from __future__ import annotations

from streamproof.harness.judging.lives import losses, still_there
from streamproof.harness.recording.history import History, NodeGone, Placed, Stamp, TimelineEntry


def test_a_run_that_goes_on_is_asked_anew_who_was_lost() -> None:
    timeline: list[TimelineEntry] = [Placed(Stamp(10), "count-0", 1, "node-0")]
    history = History([], timeline)
    assert losses(history) == {}
    assert still_there(history) == {("count-0", 1)}
    timeline.append(NodeGone(Stamp(20), "node-0"))
    assert losses(history) == {("count-0", 1): 20}
    assert still_there(history) == frozenset()
