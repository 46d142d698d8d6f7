"""What a slice held at a moment: found out by executing again what it had taken by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ...core.errors import InvalidOperator
from ...core.events import Event
from ...core.operators import Operator, RandomOperator, rows_of
from ...core.slice_names import operator_of
from ...core.wording import numbers_said
from ...judging.reexecution import Reexecution
from ...judging.reruns import Derivation, Rerun
from .affected import Root, root_of

EXECUTED: Final = 150
"""Inputs up to which a state is made again for each step."""
LISTED: Final = 2_000
"""Inputs up to which it is said which they are."""
_STATELESS: Final = ("state", "keeps none")
_RUNS: Final = 6
_ROWS: Final = 8


class HeldStates:
    """Of the slices of one history."""

    def __init__(self, rerun: Reexecution) -> None:
        self._rerun = rerun
        self._events: dict[str, dict[Derivation, Event]] = {}
        """Slice -> what was sent to it."""

    def of(self, one: Rerun, upto: int) -> Iterator[tuple[str, str]]:
        """Of an incarnation that has taken its first `upto` events: labels and what they say."""
        operator = self._operator(one.slice_id)
        if operator.initial_state() is None:
            yield _STATELESS
            return
        yield "made of", self.made_of(one, upto)
        if _length(one, upto) <= EXECUTED and _is_plain(operator):
            yield "rows", self._rows(operator, one.slice_id, one.lineage(upto))

    def at_first(self, slice_id: str) -> Iterator[tuple[str, str]]:
        """The same, of one that begins with nothing."""
        operator = self._operator(slice_id)
        if operator.initial_state() is None:
            yield _STATELESS
            return
        yield "made of", inputs_said(())
        if _is_plain(operator):
            yield "rows", self._rows(operator, slice_id, ())

    def _operator(self, slice_id: str) -> Operator[Any]:
        return self._rerun.topology.stages[operator_of(slice_id)].operator

    def made_of(self, one: Rerun, upto: int) -> str:
        """The inputs that had gone into its state."""
        length = _length(one, upto)
        if length <= LISTED:
            return inputs_said(one.lineage(upto))
        last = f", the last of them {self._rerun.said(one.took[upto - 1])}" if upto else ""
        return f"{length:,} inputs{last}"

    def _rows(self, operator: Operator[Any], slice_id: str, lineage: Sequence[Derivation]) -> str:
        if slice_id not in self._events:
            self._events[slice_id] = dict(self._sent_to(slice_id))
        events = self._events[slice_id]
        state = operator.initial_state()
        try:
            for derivation in lineage:
                if derivation not in events:
                    return ""
                for _ in operator.process(events[derivation], state):
                    pass
            rows = rows_of(operator, state)
        except Exception as error:
            raise InvalidOperator(
                f"operator of {slice_id}, executed again to draw the run, failed: {type(error).__name__}: {error}"
            ) from error
        said = [f"{key}: {value!r}" for key, value in rows.items()]
        more = f", and {len(said) - _ROWS} more" if len(said) > _ROWS else ""
        return (", ".join(said[:_ROWS]) + more) or "none"

    def _sent_to(self, slice_id: str) -> Iterator[tuple[Derivation, Event]]:
        for upstream in self._rerun.topology.upstream(slice_id):
            senders = self._rerun.reruns.get(upstream, {1: self._rerun.sources.get(upstream)})
            for sender in senders.values():
                if sender is not None:
                    events, derivations = sender.channel(slice_id)
                    yield from zip(derivations, events, strict=True)


def _length(one: Rerun, upto: int) -> int:
    """Of a lineage, without listing it."""
    stretch = next((s for s in reversed(one.stretches) if s.begins < upto), one.stretches[0])
    length = upto - stretch.begins
    while (cut := stretch.cut) is not None:
        stretch = cut.stretch
        length += cut.position - stretch.begins
    return length


def _is_plain(operator: Operator[Any]) -> bool:
    """Whether its state is made of what it took alone."""
    return not (
        isinstance(operator, RandomOperator)
        or operator.by_event_time
        or operator.epoch is not None
        or operator.every is not None
        or not operator.deterministic
    )


def inputs_said(derivations: Sequence[Derivation]) -> str:
    """The inputs that something is made of: `source-0 #1–#8, #10; source-0 #3 2 times`. An input can be in several
    parts, such as the words of a line, each of which counts once."""
    if not derivations:
        return "nothing"
    roots = {root_of(derivation) for derivation in derivations}
    said = []
    for source, numbers in _by_source(roots).items():
        said.append(f"{source} {numbers_said(numbers, _RUNS)}")
    often: dict[Root, int] = {}
    for derivation, count in Counter(derivations).items():
        if count > 1:
            often[root_of(derivation)] = max(count, often.get(root_of(derivation), 0))
    more = [f"{source} #{number:,} {count} times" for (source, number), count in list(often.items())[:_RUNS]]
    return "; ".join([*said, *more, *(["…"] if len(often) > _RUNS else [])])


def _by_source(roots: Iterable[Root]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for source, number in sorted(roots):
        found.setdefault(source, []).append(number)
    return found
