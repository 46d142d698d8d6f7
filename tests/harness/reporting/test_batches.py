"""The batches of a query's run, from what its record says of them."""

from __future__ import annotations

from query_histories import EVERY, Given, query_history
from streamproof.harness.core.addresses import DRIVER
from streamproof.harness.judging.references import REFERENCES
from streamproof.harness.judging.shapes import OutputShape
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import BatchDone
from streamproof.harness.reporting.html.batches import batch_lane, batch_times, batches_of

ROW = {"word": "a"}


def history() -> History:
    """The second batch is given by two incarnations, of which the first was killed before Spark had said anything of
    it."""
    shape = OutputShape.of({"mode": "append", "key": [], "reads": False, "source": None})
    wanted = [Given(0, [ROW]), Given(1, [ROW])]
    found = [Given(0, [ROW]), Given(1, [ROW]), Given(1, [ROW], incarnation=2)]
    said = [
        BatchDone(DRIVER, 1, 0, 10, 0, 0, 400),
        BatchDone(DRIVER, 2, 1, 10, 3, 2, 100),
        *(BatchDone(name, 1, 0, 10, 0, 0, 50) for name in REFERENCES),
    ]
    return query_history(shape, wanted, found, also=said)


def test_each_batch_has_a_line_for_each_incarnation_that_gave_it() -> None:
    batches = batches_of(history())
    assert [(one.batch, one.incarnation, one.took, one.again) for one in batches] == [
        (0, 1, 400_000, False),
        (1, 1, None, False),
        (1, 2, 100_000, True),
    ]
    assert [one.given_at for one in batches] == [EVERY, 2 * EVERY, 3 * EVERY]
    assert (batches[2].rows, batches[2].late, batches[2].evicted) == (10, 3, 2)


def test_how_long_batches_took_is_said_beside_the_runs_without_failures() -> None:
    judged, references = batch_times(history())
    assert (judged.who, judged.batches, dict(judged.percentiles)["50 of 100"]) == ("this run", 2, 250_000)
    assert (references.batches, dict(references.percentiles)["longest"]) == (2, 50_000)


def test_what_was_given_again_is_so_on_the_axis() -> None:
    lane = batch_lane(batches_of(history()))
    assert lane is not None
    assert [sign.said for sign in lane.signs][-1] == "driver#2 gives batch 1 to the sink, again"
    assert batch_lane([]) is None
