"""Re-execution of slices with several incarnations alive at once, which join, take over, and draw numbers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handmade import Draw, Highest, Log, Made, Pass, chain
from streamproof.harness.judging.reexecutor import Reexecutor
from streamproof.harness.judging.reruns import Derivation, Rerun
from streamproof.harness.protocol.spec import Numbering

OFFERED = 12


def of(rerun: Rerun) -> list[int]:
    """The numbers at the root of what has gone into a state."""
    return [seq for _, seq, *_ in rerun.lineage()]


@dataclass
class Model:
    """What an incarnation should come to, kept the simple way: all of it, at every moment."""

    number: int
    lineage: list[int] = field(default_factory=list)
    log: list[tuple[int, list[int]]] = field(default_factory=list)
    """Outputs that it could send, (number, content)."""
    taken: int = 0
    next_seq: int = 1


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["take", "take", "cut", "start", "join"]), st.integers(0, 5), st.integers(0, 7)),
    max_size=30,
)


@settings(deadline=None, max_examples=200)
@given(steps)
def test_whoever_restores_from_whomever_whenever_is_executed_as_it_was(drawn: list[Step]) -> None:
    """Incarnations start blank or from any checkpoint there is, take over others when they run already, and the
    numbers that they have do not say who gave to whom."""
    made = Made(chain(Log()))
    made.offer("a", *range(1, OFFERED + 1))
    names = iter([4, 2, 6, 1, 5, 3])
    alive: list[Model] = []
    cuts: list[tuple[tuple[int, int], Model]] = []

    def begin(which: int) -> None:
        number = next(names, None)
        if number is None:
            return
        if cuts and which % 2:
            checkpoint, state = cuts[which % len(cuts)]
            model = deepcopy(state)
            model.number = number
            made.start("op0", number, replica=number, restored=checkpoint, next_seq=model.next_seq)
        else:
            model = Model(number)
            made.start("op0", number, replica=number)
        alive.append(model)

    begin(0)
    for step, who, which in drawn:
        model = alive[who % len(alive)]
        match step:
            case "take":
                first = which % OFFERED + 1
                last = min(OFFERED, first + who % 3)
                made.take("op0", model.number, "a", 1, first, last)
                for seq in range(first, last + 1):
                    model.lineage.append(seq)
                    model.log.append((model.next_seq, list(model.lineage)))
                    model.next_seq += 1
            case "cut":
                checkpoint = (model.number, len(cuts) + 1)
                made.checkpoint("op0", *checkpoint)
                cuts.append((checkpoint, deepcopy(model)))
            case "start":
                begin(which)
            case "join" if cuts:
                checkpoint, state = cuts[which % len(cuts)]
                made.restore("op0", model.number, checkpoint, state.next_seq)
                number = model.number
                alive[alive.index(model)] = joined = deepcopy(state)
                joined.number = number
    rerun = made.rerun()
    assert rerun.unexplained == {}
    for model in alive:
        one = rerun.reruns["op0-0"][model.number]
        assert of(one) == model.lineage
        assert one.state == model.lineage
        assert one.next_seq == model.next_seq
        events, derivations = one.channel("sink-0")
        assert [(event.seq, event.value) for event in events] == model.log
        assert [derivation[:-1] for derivation in derivations] == [("a-0", content[-1]) for _, content in model.log]


def test_what_was_taken_before_a_state_was_taken_over_counts_no_more_but_its_outputs_were_sent() -> None:
    made = Made(chain(Log(), Pass()), Numbering.CONTINUED, replicas=2)
    made.offer("a", 1, 2, 3, 4)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, in_sync=False)
    made.start("op1", 1)
    made.take("op0", 1, "a", 1, 1, 3)
    made.take("op0", 2, "a", 1, 3, 3)
    made.take("op1", 1, "op0", 2, 1, 1)
    made.checkpoint("op0", 1, 1)
    made.restore("op0", 2, (1, 1), 4)
    made.take("op0", 2, "a", 1, 4, 4)
    made.take("op1", 1, "op0", 2, 4, 4)
    rerun = made.rerun()
    assert rerun.unexplained == {}
    two, below = rerun.reruns["op0-0"][2], rerun.reruns["op1-0"][1]
    assert of(two) == [1, 2, 3, 4]
    assert of(below) == [3, 4]
    assert [event.value for event in below.channel("sink-0")[0]] == [[3], [1, 2, 3, 4]]
    assert rerun.visible(two) == [1, 2]
    assert [two.lineage(visible) for visible in rerun.visible(two)] == [[("a-0", 3)], two.lineage()]


def test_two_that_each_began_with_what_the_other_held_first_cannot_be() -> None:
    made = Made(chain(Log()))
    made.offer("a", 1)
    made.start("op0", 1, restored=(2, 1))
    made.start("op0", 2, restored=(1, 1))
    made.checkpoint("op0", 1, 1)
    made.checkpoint("op0", 2, 1)
    assert "started from a checkpoint that nobody took" in made.rerun().unexplained["op0-0"]


def test_thousands_of_incarnations_are_no_deep_recursion() -> None:
    made = Made(chain(Log()))
    made.offer("a", 1)
    made.start("op0", 1)
    for number in range(1, 3_000):
        made.checkpoint("op0", number, 1)
        made.start("op0", number + 1, restored=(number, 1))
    made.take("op0", 3_000, "a", 1, 1, 1)
    last = made.rerun().reruns["op0-0"][3_000]
    assert of(last) == [1]
    assert len(last.channel("sink-0")[0]) == 1


def test_chance_is_that_of_the_seed_and_goes_on_through_an_incarnation() -> None:
    made = Made(chain(Draw()), replicas=2)
    made.offer("a", 1, 2, 3, 4)
    made.start("op0", 1, seed=5)
    made.start("op0", 2, replica=1, seed=6)
    made.start("op0", 3, replica=2, seed=5)
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 4)
    made.take("op0", 3, "a", 1, 1, 1)
    made.take("op0", 3, "a", 1, 2, 4)
    one, two, three = (made.rerun().reruns["op0-0"][number].state for number in (1, 2, 3))
    assert one == three
    assert len(set(one + two)) == 8


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from("ab"), max_size=14), st.lists(st.integers(1, 4), max_size=14), st.data())
def test_numbers_that_do_not_rise_name_what_was_sent(order: list[str], sizes: list[int], data: st.DataObject) -> None:
    """Two sources with the same numbers come together under inherited numbering: every number stands for two events."""
    made = Made(chain(Pass(), Log(), sources=("a", "b")), Numbering.INHERITED)
    values = {source: [f"{source}{n}" for n in range(1, 60)] for source in "ab"}
    for source in "ab":
        made.offer(source, *values[source])
    made.start("op0", 1)
    made.start("op1", 1)
    done = {"a": 0, "b": 0}
    sent: list[tuple[str, int]] = []
    for source, size in zip(order, sizes, strict=False):
        first, last = done[source] + 1, done[source] + size
        made.take("op0", 1, source, 1, first, last)
        batch = [(source, n) for n in range(first, last + 1)]
        done[source] = last
        sent += batch
        if data.draw(st.booleans()):
            made.take("op1", 1, "op0", 1, first, last)
        else:
            for _, number in batch:
                made.take("op1", 1, "op0", 1, number, number)
    rerun = made.rerun()
    assert rerun.unexplained == {}
    assert rerun.reruns["op1-0"][1].state == [f"{source}{number}" for source, number in sent]
    made.deliver("op1", 1, *[])
    case = made.case()
    assert case.collation.phantoms.count == 0
    assert case.collation.duplicate_effects.count == 0


def derivations(rerun: Rerun) -> list[Derivation]:
    return rerun.channel("sink-0")[1]


def test_an_incarnation_that_did_the_same_as_its_peer_is_not_executed_twice() -> None:
    """It joined after two events, and whose copies of them the slice below takes does not matter."""
    processed = 0

    class Counted(Log):
        def process(self, event: object, state: list[object]) -> object:  # type: ignore[override]
            nonlocal processed
            processed += 1
            return super().process(event, state)  # type: ignore[arg-type]

    def records(copies: tuple[int, int]) -> Made:
        made = Made(chain(Pass(), Counted()), replicas=2)
        made.offer("a", 1, 2, 3, 4)
        for name in ("op0", "op1"):
            made.start(name, 1)
            made.start(name, 2, replica=1, in_sync=False)
        made.take("op0", 1, "a", 1, 1, 2)
        made.checkpoint("op0", 1, 1)
        made.restore("op0", 2, (1, 1), 3)
        made.take("op0", 1, "a", 1, 3, 4)
        made.take("op0", 2, "a", 1, 3, 4)
        for number, copy in zip((1, 2), copies, strict=True):
            made.take("op1", number, "op0", 1, 1, 2)
            made.take("op1", number, "op0", copy, 3, 4)
        return made

    first = records((1, 2))
    rerun = first.rerun()
    one, two = (rerun.reruns["op1-0"][number] for number in (1, 2))
    assert processed == 4
    assert one.state == two.state == [1, 2, 3, 4]
    assert derivations(one) == derivations(two)
    assert [intake.record.upstream_incarnation for intake in rerun.intakes(two)] == [1, 2]

    again = Reexecutor(first.subject.specs)
    known = again.reexecute(first.records)
    other = again.reexecute(records((2, 1)).records)
    assert other.reruns["op1-0"] is known.reruns["op1-0"], "the same, whosever copy was taken"
    assert [intake.record.upstream_incarnation for intake in other.intakes(two)] == [1, 1]


@pytest.mark.parametrize("numbering", [Numbering.FRESH, Numbering.CONTINUED])
def test_those_that_number_afresh_are_told_apart(numbering: Numbering) -> None:
    made = Made(chain(Log()), numbering, replicas=2)
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1, next_seq=1_001 if numbering is Numbering.FRESH else 1)
    for number in (1, 2):
        made.take("op0", number, "a", 1, 1, 2)
    seqs = [event.seq for event in made.rerun().reruns["op0-0"][2].channel("sink-0")[0]]
    assert seqs == ([1_001, 1_002] if numbering is Numbering.FRESH else [1, 2])


def test_one_that_stopped_short_is_no_copy_of_its_peer() -> None:
    made = Made(chain(Highest()), replicas=2)
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.start("op0", 2, replica=1)
    made.take("op0", 1, "a", 1, 1, 2)
    made.take("op0", 2, "a", 1, 1, 1)
    reruns = made.rerun().reruns["op0-0"]
    assert [reruns[number].state for number in (1, 2)] == [[2], [1]]
