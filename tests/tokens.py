"""An operator of a user whose checkpoints refer to what the process keeps in its memory: a successor in another process
finds nothing there."""

from __future__ import annotations

import weakref
from collections import ChainMap, OrderedDict, UserDict
from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache, partial
from typing import Any

from requests import Session
from requests.structures import CaseInsensitiveDict
from sortedcontainers import SortedKeyList

from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.workloads import numbered

Memory = MutableMapping[bytes, dict[str, int]]


class _Own(MutableMapping[bytes, dict[str, int]]):
    def __init__(self) -> None:
        self._held: dict[bytes, dict[str, int]] = {}

    def __getitem__(self, key: bytes) -> dict[str, int]:
        return self._held[key]

    def __setitem__(self, key: bytes, value: dict[str, int]) -> None:
        self._held[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._held[key]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class _List(list[int]):
    memory: Memory


class _Dict(dict[str, int]):
    memory: Memory


class _Tuple(tuple[int, ...]):
    memory: Memory


class _Partial(partial[int]):
    __slots__ = ("memory",)


class _Counts(dict[str, int]):
    """Unlike a dict, it can be referred to weakly."""


@lru_cache
def _cached() -> Memory:
    return {}


_cached()
_dict: Memory = {}
_user_dict: Memory = UserDict()
_own: Memory = _Own()
_chain: Memory = ChainMap({})
_ordered: Memory = OrderedDict()
_of_list, _of_dict, _of_tuple = _List(), _Dict(), _Tuple()
for _one in (_of_list, _of_dict, _of_tuple):
    _one.memory = {}  # type: ignore[attr-defined]
_partial: Any = partial(len)
_partial.memory = {}
_slotted: Any = _Partial(len)
_slotted.memory = {}
_headers = CaseInsensitiveDict[str]()
# Of a package of which another object is a container, which comes to be looked at later.
_session: Any = Session()
_session.memory = {}
_alive: list[_Counts] = []
_weak: Any = weakref.WeakValueDictionary()


def _weakly() -> Memory:
    return _Weakly()


class _Weakly(dict[bytes, dict[str, int]]):
    def __setitem__(self, key: bytes, value: dict[str, int]) -> None:
        _weak[key] = counts = _Counts(value)
        _alive.append(counts)

    def get(self, key: bytes, default: Any = None) -> Any:
        return _weak.get(key, default)


_sorted: Any = SortedKeyList(key=lambda pair: pair[0])


class _Sorted(dict[bytes, dict[str, int]]):
    def __setitem__(self, key: bytes, value: dict[str, int]) -> None:
        _sorted.add((key, value))

    def get(self, key: bytes, default: Any = None) -> Any:
        return next((counts for known, counts in _sorted if known == key), default)


MEMORIES: dict[str, Callable[[], Memory]] = {
    "dict": lambda: _dict,
    "UserDict": lambda: _user_dict,
    "mapping of their own": lambda: _own,
    "ChainMap": lambda: _chain,
    "OrderedDict": lambda: _ordered,
    "container of a library": _Sorted,
    "attribute of a list": lambda: _of_list.memory,
    "attribute of a dict": lambda: _of_dict.memory,
    "attribute of a tuple": lambda: _of_tuple.memory,
    "attribute of a partial": lambda: _partial.memory,
    "slot of a partial": lambda: _slotted.memory,
    "object of a library of containers": lambda: _session.memory,
    "what a cache has handed out": _cached,
    "weak references": _weakly,
}
"""Where it is kept, in variables of this module."""


class Referring(Operator[dict[str, int]]):
    """Counts keys."""

    def __init__(self, where: str = "dict", early: bool = False) -> None:
        """`early`: it remembers whenever it has processed something, and not only for a checkpoint."""
        self.where = where
        self.early = early

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> list[tuple[str, str]]:
        state[event.key] = state.get(event.key, 0) + 1
        if self.early:
            self._remember(state)
        return [(event.key, str(state[event.key]))]

    def snapshot(self, state: dict[str, int]) -> bytes:
        if not self.early:
            self._remember(state)
        return repr(sorted(state.items())).encode()[:1] + bytes([sum(state.values())])

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return dict(MEMORIES[self.where]().get(snapshot, {}))

    def _remember(self, state: dict[str, int]) -> None:
        MEMORIES[self.where]()[b"[" + bytes([sum(state.values())])] = dict(state)


def referring(fault: Fault, operator: Operator[Any]) -> Scenario:
    """A scenario of 40 events under this fault, which takes the slice `count-0`."""
    counting = Topology("count", {"count": Stage(operator)}, (Edge("source", "count"), Edge("count", "sink")))
    subject = passive_replication(counting, checkpoint_every=events(4))
    return Scenario(subject, numbered(events=40, batch=2, keys=5), [fault])


def crashed() -> Scenario:
    """By name."""
    return referring(crash("count-0").after(events(20)), Referring())
