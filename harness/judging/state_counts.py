"""What the states of a slice come to: what they lack, hold more than once, or hold otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..core.events import Event
from ..core.operators import compensates, rows_of
from ..core.slice_names import operator_of
from ..core.verdicts import Evidence
from ..recording.records import Compensated
from .exactness import other_keys
from .expected import Expected
from .long_lineages import has_twice, needed
from .made import is_long
from .reexecution import Reexecution
from .reruns import Derivation, Rerun


def doubled_in_passing(rerun: Reexecution, slice_id: str) -> Iterator[tuple[Rerun, Derivation, int]]:
    """What an incarnation that is gone had taken more than once when its last visible effect came of it, and no final
    state holds more than once."""
    survivors = rerun.survivors(slice_id)
    found: dict[Derivation, tuple[Rerun, Derivation, int]] = {}
    for _, one in sorted(rerun.reruns[slice_id].items()):
        if one in survivors or not (has_twice(one.took) or has_twice(one.lineage())):
            continue
        for visible in rerun.visible(one):
            for derivation, count in Counter(one.lineage(visible)).items():
                if count > 1:
                    found.setdefault(derivation, (one, derivation, count))
    if not found:
        return
    final = [Counter(survivor.lineage()) for survivor in survivors]
    yield from (entry for derivation, entry in found.items() if all(seen[derivation] < 2 for seen in final))


def ended_twice(rerun: Reexecution) -> Iterator[Evidence]:
    """Epochs that have ended for a state more than once: what it makes of their inputs then, it has made of them
    twice."""
    for slice_id in rerun.epochs:
        for one in rerun.reruns[slice_id].values() if slice_id not in rerun.doubtful else ():
            for epoch, count in Counter(epoch for epoch, _ in one.closings()).items():
                if count > 1:
                    yield Evidence(f"epoch {epoch:,} ended {count:,} times for it", f"{slice_id}#{one.number}")


def still_needed(
    rerun: Reexecution, slice_id: str, missing: Sequence[Derivation], should: Mapping[Derivation, Event]
) -> Sequence[Derivation]:
    """Those of the inputs that a final state does not hold which it has to: not what was taken in its time, and has
    left the operator's window since."""
    window = rerun.topology.stages[operator_of(slice_id)].operator.window
    if window is None or not missing:
        return missing
    if is_long(should):
        return needed(missing, should, window, [one.took for one in rerun.reruns[slice_id].values()])
    now = max(event.time for event in should.values())
    taken: set[Derivation] = set()
    for one in rerun.reruns[slice_id].values():
        taken.update(one.took)
    return [d for d in missing if should[d].time + window > now or d not in taken]


def wrong_states(rerun: Reexecution) -> Iterator[Evidence]:
    for slice_id, states in rerun.kept.items():
        if slice_id in rerun.doubtful:
            continue
        operator = rerun.topology.stages[operator_of(slice_id)].operator
        for incarnation, rows in states.items():
            given = rows_of(operator, rerun.reruns[slice_id][incarnation].state)
            for key in other_keys(rows, given):
                was, gives = (repr(r[key]) if key in r else "not there" for r in (rows, given))
                yield Evidence(
                    f"state of key {key!r} is {was}, but what was taken gives {gives}",
                    f"{slice_id}#{incarnation}",
                )


def compensations(rerun: Reexecution) -> Iterator[Evidence]:
    """States that were moved, to make up for what a recovery could not restore: without the failure, none is."""
    for slice_id, book in rerun.books.items():
        stage = rerun.topology.stages.get(operator_of(slice_id))
        if stage is None or not compensates(stage.operator):
            continue
        for record in book:
            if isinstance(record, Compensated):
                what = f"a recovery moved its state by up to {record.missing:,.6g}, for what it could not restore"
                yield Evidence(what, f"{slice_id}#{record.incarnation}")


def other_states(rerun: Reexecution, wanted: Expected) -> Iterator[Evidence]:
    """States at the end that are others than without failures."""
    for slice_id, rows in wanted.states.items():
        kept = rerun.kept.get(slice_id, {})
        for survivor in rerun.survivors(slice_id) if slice_id not in rerun.doubtful else ():
            held = kept.get(survivor.number)
            if held is not None and (others := other_keys(held, rows)):
                key = others[0]
                was, should = (repr(one[key]) if key in one else "not there" for one in (held, rows))
                yield Evidence(
                    f"state of key {key!r} is {was}, and {should} without failures", f"{slice_id}#{survivor.number}"
                )
