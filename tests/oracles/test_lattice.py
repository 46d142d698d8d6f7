"""On any history a stronger guarantee never holds beside a weaker one that is violated, and what holds is what an
execution from the beginning gives.

Histories are made by hand from a seed: a chain of operators behind one or two sources, incarnations that begin blank
or from some checkpoint, take what they take in pieces that may be repeated, left out or swapped, and deliver what they
made, perhaps again. Many of them are legal for some guarantee, and some for all.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from handmade import JUDGES, Highest, Last, Log, Made, Pass, chain
from sampling import long_but_for
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import EXACTLY_ONCE_OUTPUT, PRECISE, ROLLBACK_CONVERGENT, Guarantee
from streamproof.harness.core.lattice import implied, ranked
from streamproof.harness.core.operators import Operator, rows_of
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.oracle import Case
from streamproof.harness.protocol.spec import Numbering
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, Kept, Offered, Taken
from streamproof.reference_impls.mechanisms.merges import ByTime, RoundRobin

RANKED = ranked(JUDGES)
HISTORIES = 3_000
CHUNKS = 12
OPERATORS = (Log, Highest, Last, Pass)


def drawn(seed: int) -> Made:
    """One operator, so that what its incarnations took is all that there is to it."""
    random = Random(seed)
    sources = random.choice((("a",), ("a",), ("a", "b")))
    merge = random.choice((None, ByTime(), RoundRobin())) if len(sources) > 1 else None
    operator = random.choice(OPERATORS)()
    numbering = random.choice((Numbering.CONTINUED, Numbering.CONTINUED, Numbering.FRESH))
    made = Made(chain(operator, sources=sources), numbering, merge=merge)
    amount = random.randint(2, 12)
    for source in sources:
        made.offer(source, *(random.randrange(9) for _ in range(amount)), every=random.choice((1, 3)))
    honest = random.random() < 0.6
    position = dict.fromkeys(sources, 0)
    cuts: dict[tuple[int, int], tuple[dict[str, int], int]] = {}
    outputs, number = 0, 0
    incarnations = random.randint(1, 3)
    delivered = 0
    for turn in range(incarnations):
        number += 1
        restored = random.choice([None, *cuts]) if number > 1 else None
        if honest and number > 1:
            restored = max(cuts, default=None)
        if restored is not None:
            position, outputs = dict(cuts[restored][0]), cuts[restored][1]
        elif honest or random.random() < 0.5:
            position, outputs = dict.fromkeys(sources, 0), 0
        first = outputs if numbering is Numbering.CONTINUED else number * 1_000
        made.start("op0", number, restored=restored, next_seq=first + 1)
        begun = _made(made, number)
        taken = 0
        for _ in range(100):
            open_ = [s for s in sources if position[s] < amount]
            if not open_ or (turn < incarnations - 1 and random.random() < 0.2):
                break
            source = min(open_, key=lambda s: (position[s], s)) if honest and merge else random.choice(open_)
            low = position[source] + 1
            high = min(amount, low + (0 if honest and merge else random.randrange(3)))
            if not honest and random.random() < 0.15:
                low = max(1, low - 1) if random.random() < 0.5 else min(high, low + 1)
            made.take("op0", number, source, 1, low, high)
            position[source] = high
            taken += high - low + 1
            if random.random() < 0.3:
                made.checkpoint("op0", number, taken)
                cuts[number, taken] = dict(position), _made(made, number) - begun + outputs
        count = _made(made, number)
        seqs = _numbers(made, number)
        skip = 0
        if honest and numbering is Numbering.CONTINUED and random.random() < 0.7:
            skip = sum(seq <= delivered for seq in seqs)
        given = seqs[skip:]
        if turn < incarnations - 1:
            given = given[: random.randint(0, len(given))]
        if not honest and given and random.random() < 0.3:
            place = random.randrange(len(given))
            given = random.choice((given[:place] + given[place + 1 :], given[: place + 1] + given[place:]))
        if given:
            made.deliver("op0", number, *given)
            delivered = max(delivered, *given)
        outputs += count - begun
        if turn < incarnations - 1:
            made.lose("op0", number, fault=turn)
    made.keep("op0", number)
    return made


def _numbers(made: Made, number: int) -> list[int]:
    events, _ = made.rerun().reruns["op0-0"][number].channel("sink-0")
    inherited = len(events) - len(made.rerun().reruns["op0-0"][number].emitted["sink-0"].events)
    return [event.seq for event in events[inherited:]]


def _made(made: Made, number: int) -> int:
    return len(_numbers(made, number))


def executed(made: Made, history: History) -> tuple[list[tuple[str, object]], dict[str, object]]:
    """O and T of the order in which the incarnations that the last one descends from took their inputs, by a loop that
    knows nothing of restoring."""
    offered = {e.source: {} for s in history.records if isinstance(s.record, Offered) for e in s.record.events}
    for stamped in history.records:
        if isinstance(stamped.record, Offered):
            for event in stamped.record.events:
                offered[event.source][event.seq] = event
    operator: Operator[object] = made.topology.stages["op0"].operator
    state = operator.initial_state()
    outputs: list[tuple[str, object]] = []
    for source, seq in _order(made, history):
        outputs += operator.process(offered[source][seq], state)
    return outputs, rows_of(operator, state)


def _order(made: Made, history: History) -> list[tuple[str, int]]:
    rerun = made.rerun()
    if "op0-0" in rerun.stateful():
        return rerun.survivors("op0-0")[0].lineage()
    # Of one that keeps nothing the order is that of its outputs.
    (deliveries,) = made.case(history).collation.reexecution.deliveries.values()
    return [derivation[:2] for delivery in deliveries for derivation in delivery.derivations]


def verdicts_of(case: Case) -> dict[str, Status]:
    """Each by itself, so that nothing looks at another."""
    found = {}
    for name in RANKED:
        bound = Duration(10_000_000) if name == ROLLBACK_CONVERGENT else None
        verdict = JUDGES[name].judge(case, Guarantee(name, bound))
        assert {tally.anomaly for tally in verdict.anomalies} <= set(JUDGES[name].anomalies), name
        found[name] = verdict.status
    return found


@pytest.mark.parametrize("chunk", long_but_for(range(2), range(CHUNKS)))
def test_the_lattice_holds_and_what_holds_is_what_an_execution_from_the_beginning_gives(chunk: int) -> None:
    held: Counter[str] = Counter()
    for seed in range(chunk, HISTORIES, CHUNKS):
        made = drawn(seed)
        history = made.history()
        case = made.case(history)
        statuses = verdicts_of(case)
        for stronger in JUDGES:
            if statuses.get(stronger) is Status.HOLDS:
                for weaker in implied(stronger, JUDGES) & statuses.keys():
                    assert statuses[weaker] is not Status.VIOLATED, (seed, stronger, weaker)
        held.update(name for name, status in statuses.items() if status is Status.HOLDS)
        if statuses[PRECISE] is Status.HOLDS:
            outputs, rows = executed(made, history)
            delivered: list[Event] = []
            for stamped in history.records:
                if isinstance(stamped.record, Delivered):
                    delivered += stamped.record.rows
                elif isinstance(stamped.record, Kept):
                    assert stamped.record.rows == rows, seed
            assert [(event.key, event.value) for event in delivered] == [(key, value) for key, value in outputs], seed
            taken = [s.record for s in history.records if isinstance(s.record, Taken)]
            if made.topology.sources == ("a",):
                order = _order(made, history)
                assert order == sorted(order), seed
            assert sum(record.count for record in taken) >= sum(len(e) for e in made.rerun().offered.values()), seed
    assert held[PRECISE] > 10, "some are legal for all"
    assert held[EXACTLY_ONCE_OUTPUT] >= held[PRECISE]
    assert len(held) > len(RANKED) / 2, "and others for some"
