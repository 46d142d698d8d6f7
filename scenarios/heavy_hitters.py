"""Heavy hitters in a Count-Min sketch (Cormode and Muthukrishnan 2005; experiment 3 of AF-Stream).

Workers count bytes of flows in sketches of their own. When a window ends, each sends its sketch, with the flows that
may be heavy; one slice adds the sketches, and tells the flows that are.

- Counters are never set back: a window is what a worker's sketch has more than at the end of the window before, which
  the worker and the next stage keep; how far two states are apart is said of the counters alone. So one packet moves a
  counter by at most its size, and nothing else moves any, which is what `alpha` promises; a reset at the window's end
  would move them by all they hold.
- A flow of `heavy` bytes in all has that many at some worker divided by their number, and a sketch never says less than
  there was: so the candidates of the workers have all heavy hitters among them. What a recovery lost could hide a
  candidate that came after the backup: `slack` is by how much a flow that is a candidate may be lighter.
- With `compensated`, what a recovery may have lost is added to every counter: then the sketch still says no less.

The sketch is numpy's arrays of 64-bit integers and not a library's. `datasketches` has one that is well kept, but gives
no access to its counters: without them there is no divergence, no partial backup of single counters, and nothing that
could be compensated. The hashes are BLAKE2b's, the same on each machine.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from math import ceil
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.proper import positive, switch
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .skewed_streams import END

LARGEST_PACKET = 1_500
Counters = NDArray[np.int64]
_KINDS = "<i8"
"""Eight bytes, the least first, whatever the machine."""


class Sketched(msgspec.Struct):
    """What a worker keeps."""

    counters: Counters
    """Row after row."""
    before: Counters
    """The same when the window began."""
    candidates: set[str]
    """The flows that may be heavy in this window."""

    def __deepcopy__(self, _: object) -> Sketched:
        return Sketched(self.counters.copy(), self.before.copy(), set(self.candidates))


@lru_cache(maxsize=200_000)
def places(flow: str, rows: int, width: int, salt: int) -> tuple[int, ...]:
    """The counter of a flow in each row."""
    digest = blake2b(flow.encode(), digest_size=8 * rows, salt=salt.to_bytes(16, "little")).digest()
    numbers = np.frombuffer(digest, "<u8").tolist()
    return tuple([row * width + number % width for row, number in enumerate(numbers)])


class Sketch(Operator[Sketched]):
    """Adds each packet's bytes to a counter a row; at the end of a window tells its counters, and who may be heavy."""

    fan_out = 1
    alpha = float(LARGEST_PACKET)

    def __init__(self, rows: int, width: int, candidate: int, *, compensated: bool, salt: int) -> None:
        """Raises InvalidOperator for a sketch without counters."""
        for name, amount in (("rows", rows), ("width", width), ("candidate", candidate)):
            positive(amount, name, InvalidOperator)
        if rows > 8:
            raise InvalidOperator(f"rows={rows} of a sketch: BLAKE2b's 64 bytes give 8 at most")
        switch(compensated, "compensated")
        self._rows, self._width, self._candidate, self._salt = rows, width, candidate, salt
        self._compensated = compensated

    def initial_state(self) -> Sketched:
        size = self._rows * self._width
        return Sketched(np.zeros(size, np.int64), np.zeros(size, np.int64), set())

    def _places(self, flow: str) -> list[int]:
        return list(places(flow, self._rows, self._width, self._salt))

    def punctuation(self, event: Event) -> bool:
        return bool(event.value[0] == END)

    def process(self, event: Event, state: Sketched) -> list[Output]:
        flow, size = event.value
        if flow == END:
            told = [size, encoded(state.counters), sorted(state.candidates)]
            state.before = state.counters.copy()
            state.candidates.clear()
            return [("sketch", told)]
        where = self._places(flow)
        state.counters[where] += size
        if (state.counters[where] - state.before[where]).min() >= self._candidate:
            state.candidates.add(flow)
        return []

    def alpha_of_all(self, events: Sequence[Event]) -> float:
        packets = [event.value for event in events if event.value[0] != END]
        where = self._places_of([flow for flow, _ in packets])
        # More exact than float64 is below 2^53 nothing has to be.
        sizes = np.repeat([size for _, size in packets], self._rows)
        return float(np.bincount(where, sizes).max(initial=0))

    def _places_of(self, flows: Sequence[str]) -> Counters:
        """The counters of all of these, one flow after the other."""
        rows, width, salt = self._rows, self._width, self._salt
        found = chain.from_iterable([places(flow, rows, width, salt) for flow in flows])
        return np.fromiter(found, np.int64, len(flows) * rows)

    def divergence(self, state: Sketched, backup: Sketched) -> float:
        return float(np.abs(state.counters - backup.counters).max())

    def divergence_after(self, event: Event, state: Sketched, backup: Sketched, before: float) -> float:
        if event.value[0] == END:
            return before
        return max(before, _apart(self._places(event.value[0]), state, backup))

    def divergence_after_all(self, events: Sequence[Event], state: Sketched, backup: Sketched, before: float) -> float:
        # To compare all counters is cheaper than to look for those of more than a few packets.
        if len(events) * _AS_MANY_COUNTERS >= len(state.counters):
            return self.divergence(state, backup)
        where = self._places_of([event.value[0] for event in events if event.value[0] != END])
        return max(before, _apart(where, state, backup)) if len(where) else before

    def delta(self, state: Sketched, backup: Sketched) -> Value:
        return [
            _changed(state.counters, backup.counters),
            _changed(state.before, backup.before),
            sorted(state.candidates),
        ]

    def apply_delta(self, backup: Sketched, changes: Value) -> Sketched:
        counters, before, candidates = changes
        for array, (where, those) in ((backup.counters, counters), (backup.before, before)):
            array[decoded_sketch(where)] = decoded_sketch(those)
        return Sketched(backup.counters, backup.before, set(candidates))

    def compensate(self, state: Sketched, missing: float) -> Sketched:
        if self._compensated:
            state.counters += ceil(missing)
        return state

    def snapshot(self, state: Sketched) -> bytes:
        return msgspec.msgpack.encode([encoded(state.counters), encoded(state.before), sorted(state.candidates)])

    def restore(self, snapshot: bytes) -> Sketched:
        counters, before, candidates = msgspec.msgpack.decode(snapshot)
        return Sketched(decoded_sketch(counters), decoded_sketch(before), set(candidates))

    def rows(self, state: Sketched) -> dict[str, Value]:
        """The counters. What else is kept is for what is told at the window's end, and seen there."""
        return {"counters": encoded(state.counters)}


_AS_MANY_COUNTERS = 200
"""Are compared in the time in which those of one packet are found."""


def _apart(where: list[int] | Counters, state: Sketched, backup: Sketched) -> float:
    """By how much those of the counters differ that differ most."""
    return float(np.abs(state.counters[where] - backup.counters[where]).max())


def _changed(array: Counters, backup: Counters) -> list[str]:
    """The places of those counters that are others, and what they are."""
    where = np.flatnonzero(array != backup)
    return [encoded(where), encoded(array[where])]


def encoded(counters: Counters) -> str:
    return b64encode(counters.astype(_KINDS).tobytes()).decode()


def decoded_sketch(text: str) -> Counters:
    return np.frombuffer(b64decode(text), _KINDS).astype(np.int64)


class AddSketches(Operator[dict[str, Any]]):
    """Adds the sketches of all workers for a window, less those of the window before, and tells [flow, estimate] of all
    that are heavy, the heaviest first.

    How far two states are apart is in how many sketches they differ. Each is a punctuation, so none of them is lost.
    """

    fan_out = 1

    def __init__(self, workers: int, rows: int, width: int, heavy: int, salt: int) -> None:
        # The last sketch of a window takes the place of all those of the window before.
        self.alpha: float = workers + 1
        self._workers, self._rows, self._width, self._heavy, self._salt = workers, rows, width, heavy, salt

    def initial_state(self) -> dict[str, Any]:
        return {"sketches": {}, "told": -1}

    def punctuation(self, event: Event) -> bool:
        return True

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        window, counters, candidates = event.value
        sketches = state["sketches"]
        if window <= state["told"]:
            return []
        sketches.setdefault(str(window), {})[event.source] = [counters, candidates]
        if len(sketches[str(window)]) < self._workers:
            return []
        state["told"] = window
        total = self._total(sketches[str(window)])
        if window:
            total -= self._total(sketches.pop(str(window - 1), {}))
        flows = sorted({flow for _, some in sketches[str(window)].values() for flow in some})
        estimates = {f: int(total[list(places(f, self._rows, self._width, self._salt))].min()) for f in flows}
        heavy = sorted(((f, e) for f, e in estimates.items() if e >= self._heavy), key=lambda one: (-one[1], one[0]))
        return [(f"window-{window}", heavy)]

    def _total(self, sketches: dict[str, Any]) -> Counters:
        blank = np.zeros(self._rows * self._width, np.int64)
        return sum((decoded_sketch(counters) for counters, _ in sketches.values()), blank)

    def divergence(self, state: dict[str, Any], backup: dict[str, Any]) -> float:
        mine, theirs = _flat(state), _flat(backup)
        return float(sum(mine.get(one) != theirs.get(one) for one in mine.keys() | theirs.keys()))

    def rows(self, state: dict[str, Any]) -> dict[str, Value]:
        return {"told": state["told"], **{"/".join(one): sketch for one, sketch in _flat(state).items()}}


def _flat(state: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """(Window, worker) -> its sketch."""
    return {(w, s): sketch for w, sketches in state["sketches"].items() for s, sketch in sketches.items()}


def heavy_hitters(
    workers: int = 2,
    *,
    rows: int = 4,
    width: int = 64,
    heavy: int = 10_000,
    slack: int = 0,
    compensated: bool = False,
    salt: int = 0,
) -> Topology:
    """`workers` sketches (the paper: 10, of 4 x 8,000 counters) and one slice that adds them: `sketch-0`, `sketch-1`,
    `hitters-0`. To be fed with `packets`, of as many workers; a flow is heavy with so many bytes in a window. `salt`
    chooses the hashes."""
    positive(workers, "workers", InvalidOperator)
    positive(heavy, "heavy", InvalidOperator)
    candidate = max(1, heavy // workers - slack)
    return Topology(
        "heavy-hitters",
        {
            "sketch": Stage(Sketch(rows, width, candidate, compensated=compensated, salt=salt), workers),
            "hitters": Stage(AddSketches(workers, rows, width, heavy, salt)),
        },
        (
            Edge("source", "sketch", Partitioning.FULL),
            Edge("sketch", "hitters", Partitioning.MERGE),
            Edge("hitters", "sink", Partitioning.MERGE),
        ),
    )
