"""A Structured Streaming query as a subject: a black box between a source and a sink.

The harness's source fixes the batches, so that every run of the query has the same ones: `batch_events` events each,
and then two *closing* ones, a batch each, far ahead in event time: with the second, the watermark has passed all that
came before. (Spark has a batch without data for that, which it forgets when it is restarted.) Its sink records every
batch.
Where `write` and `read` are given, the sink is the user's, and what counts is what a consumer reads of it in the end.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.addresses import DRIVER, QUERY_POINTS, TASK, Point
from ..core.errors import InvalidScenario
from ..core.events import Event
from ..core.guarantees import Guarantee
from ..core.workload import Workload
from ..crash_points.inside_spark.versions import own_hook
from ..install.spark_choice import check_spark_name
from ..judging.shapes import OutputMode, OutputShape
from .claims import Claim
from .described_code import described, keep_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ..crash_points.outside.relay import RelayedStore
    from ..judging.collation import Collation
    from ..recording.history import History

KIND = "structured-streaming-query"
SOURCE = "source"
EFFECTS = ("file", "connection", "process", "thread", "exit", "tracing", "message")
"""The kinds of effect that the user's code has outside of what a run can hold or copy; what a thread does that nobody
has to wait for, a run cannot put into every order, and what is left to the exit of a process comes after all that a run
looks at. Who sets what follows its lines has them followed no more. A message that nobody waits for may be lost where
Spark has noted its batch."""
CLOSING_MS = 365 * 24 * 3_600_000
"""How far ahead of the last event the closing ones are, in event time."""


def label_of(run: str) -> str:
    """What a run is called in stores outside; `run` says which it is, and whose. Short, since names are short there:
    PostgreSQL cuts off what is longer than 63 bytes, and so would have two runs write to one table."""
    return f"run-{hashlib.blake2s(run.encode(), digest_size=6).hexdigest()}"


@dataclass(frozen=True)
class RunFolders:
    """What one run of a query has to itself. Every node sees the folders under the same paths."""

    label: str
    """The run's own, of letters, digits and '-', 16 at most: for the names of tables or topics in a store outside. No
    other run has the same."""
    sink: Path
    """An empty folder for whatever the sink stores."""
    checkpoint: Path
    """Spark's checkpoint location."""
    stores: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Where each store outside is reached in this run, `host:port`, of those that have an address."""

    def reach(self, store: str) -> str:
        """Where a store outside is to be reached in this run, `host:port`: in a run that is watched, by way of the
        harness. Raises InvalidScenario for one that has no address."""
        if store not in self.stores:
            known = ", ".join(sorted(self.stores)) or "none"
            raise InvalidScenario(
                f"no store {store!r} with an address is declared; there are: {known}. Say it in the Query: "
                f'stores=(Store({store!r}, reset, address="127.0.0.1:5432", protocol="postgres"),)'
            )
        return self.stores[store]

    @property
    def warehouse(self) -> Path:
        """Where Spark puts tables that are saved by name alone."""
        return self.sink.with_name(f"{self.sink.name}.warehouse")

    @property
    def stored(self) -> tuple[Path, ...]:
        """All that holds what outlives a crash."""
        return self.checkpoint, self.sink, self.warehouse


@dataclass(frozen=True)
class Store:
    """A store outside Spark and outside the run's folders: a database, a topic. It cannot be copied."""

    name: str
    reset: Callable[[RunFolders], None]
    """Makes it as new for a run; called before each. What it sends is no part of the query."""
    address: str = ""
    """`host:port`, where it takes connections. A query that reaches it by `folders.reach(name)` is seen by what it
    sends: each request that may change the store is a crash point."""
    protocol: str = ""
    """How to read what is sent: postgres, kafka, http, or bytes for any other, which is also what nothing means."""

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not isinstance(self.protocol, str):
            raise InvalidScenario(f"store {self.name!r}: address={self.address!r} and protocol must be texts")
        if self.protocol:
            _check_protocol(self.name, self.protocol)
        if self.protocol and not self.address:
            raise InvalidScenario(
                f"store {self.name!r}: protocol={self.protocol!r} without an address, as in address='127.0.0.1:5432'"
            )
        if self.address:
            host, colon, port = self.address.rpartition(":")
            if not colon or not host or ":" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise InvalidScenario(f"store {self.name!r}: address={self.address!r} is no host:port")
            if not re.fullmatch(r"[\w.-]+", self.name):
                raise InvalidScenario(f"store {self.name!r}: a name has letters, digits, '-', '_' and '.'")

    @property
    def relayed(self) -> RelayedStore:
        """As the relay knows it. It needs an address."""
        # Not above, as in `Query.collate`: no driver relays.
        from ..crash_points.outside.protocols import BYTES, PROTOCOLS
        from ..crash_points.outside.relay import RelayedStore

        host, _, port = self.address.rpartition(":")
        return RelayedStore(self.name, (host, int(port)), PROTOCOLS[self.protocol or BYTES])


def _check_protocol(store: str, protocol: str) -> None:
    from ..crash_points.outside.protocols import PROTOCOLS

    if protocol not in PROTOCOLS:
        raise InvalidScenario(f"store {store!r}: protocol={protocol!r}; there are: {', '.join(PROTOCOLS)}")


Write = Callable[["DataFrame", RunFolders], "DataStreamWriter | StreamingQuery"]
Read = Callable[["SparkSession", RunFolders], "DataFrame"]


@dataclass(frozen=True)
class Query:
    """`transform` makes the query of a streaming frame. It has to be picklable, as `write`, `read` and `source` have.

    The frame has the columns key, value (string), seq and time (long; ms of event time) and timestamp; with a `schema`
    the events' values are JSON objects, and it has the columns of the schema, seq and timestamp.

    `write` is given what `transform` gives, and returns a DataStreamWriter, which the harness gives its checkpoint and
    trigger and starts; or it starts the stream itself, with the checkpoint of its RunFolders, and returns that. `read`
    gives what a consumer would see.
    """

    transform: Callable[[DataFrame], DataFrame]
    name: str = ""
    """The function's, where it is left out."""
    mode: OutputMode = OutputMode.APPEND
    key: tuple[str, ...] = ()
    """The columns that name a row of the table that the output makes. Update mode needs them."""
    write: Write | None = None
    read: Read | None = None
    source: Read | None = None
    """Where the input comes from, where that is not the harness's."""
    schema: str = ""
    """Of the events' values, in SQL's words (`user STRING, clicks INT`)."""
    stores: tuple[Store, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Spark's configuration."""
    secrets: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """More of it, of which no record holds the values."""
    packages: tuple[str, ...] = ()
    """Maven coordinates, as `spark.jars.packages` takes them."""
    jars: tuple[str, ...] = ()
    hooks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Crash points of the user's in Java or Scala code: a name, and the method (`com.acme.Upload.finish`)."""
    claims: tuple[Claim, ...] = ()
    batch_events: int = 100
    accepts: tuple[str, ...] = ()
    """Effects of its code outside of the run's folders that do not count, as a certificate names them, with `*` for
    what may vary: `file /var/log/app/*`, `connection 10.0.0.7:8125`, `process gzip`."""
    spark: str = ""
    """The Spark that it runs on: a version, of which `streamproof spark add` has made an environment, or the path of an
    interpreter with a pyspark. Else that of the harness's own interpreter."""

    kind = KIND

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise InvalidScenario(
                f"query {self.name!r}: transform={self.transform!r} must be a function of a DataFrame"
            )
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.transform))
        for name in ("name", "schema", "spark"):
            if not isinstance(getattr(self, name), str):
                raise self._wrong(f"{name}={getattr(self, name)!r} must be a text")
        try:
            check_spark_name(self.spark)
        except InvalidScenario as error:
            raise self._wrong(str(error)) from None
        self._check_shape()
        count = self.batch_events
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise self._wrong(f"batch_events={count!r} needs a positive whole number")
        for name in ("write", "read", "source"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise self._wrong(f"{name}={given!r} must be a function")
        if (self.write is None) != (self.read is None):
            there, missing = ("write", "read") if self.read is None else ("read", "write")
            raise self._wrong(f"{there} is given without {missing}: a sink is written, and read by a consumer")
        for name in ("stores", "packages", "jars", "claims", "accepts"):
            object.__setattr__(self, name, self._listed(name))
        strange = [store for store in self.stores if not isinstance(store, Store)]
        if strange:
            raise self._wrong(f"stores holds {strange[0]!r}, which is no Store")
        for effect in self.accepts:
            if not isinstance(effect, str) or effect.partition(" ")[0] not in EFFECTS or " " not in effect:
                raise self._wrong(
                    f"accepts holds {effect!r}; an effect is named as in 'file /var/log/app.log': {', '.join(EFFECTS)}"
                )
        names = [store.name for store in self.stores]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise self._wrong(f"two stores are called {twice[0]!r}")
        # What somebody claims of a query is mostly a guarantee, and no more.
        claims = tuple(Claim(claim) if isinstance(claim, Guarantee) else claim for claim in self.claims)
        object.__setattr__(self, "claims", claims)
        for claim in claims:
            if not isinstance(claim, Claim):
                raise self._wrong(f"claims holds {claim!r}, which is no Claim: say exactly_once(), or Claim(...)")
        for name in ("settings", "secrets", "hooks"):
            if not isinstance(getattr(self, name), Mapping):
                raise self._wrong(f"{name} must be a dict")
        for name, value in {**self.settings, **self.secrets}.items():
            if not isinstance(name, str) or not name.startswith("spark."):
                raise self._wrong(f"the setting {name!r} must begin with 'spark.'")
            if not isinstance(value, str):
                raise self._wrong(f"the value of the setting {name!r} must be a text")
        for name, method in self.hooks.items():
            if not isinstance(name, str) or not isinstance(method, str):
                raise self._wrong(f"hooks={dict(self.hooks)!r} must give each name a method, as a text")
            own_hook(name, method)
        for handed in (self.transform, self.write, self.read, self.source):
            if handed is not None:
                keep_source(handed)

    def _listed(self, name: str) -> tuple[Any, ...]:
        given = getattr(self, name)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise self._wrong(f"{name}={given!r} must be a list")
        return tuple(given)

    def _check_shape(self) -> None:
        try:
            object.__setattr__(self, "mode", OutputMode(self.mode))
        except ValueError:
            raise self._wrong(f"mode={self.mode!r}; there are: {', '.join(OutputMode)}") from None
        key: Any = self.key
        if isinstance(key, str) or not isinstance(key, Iterable) or not all(isinstance(one, str) for one in key):
            raise self._wrong(f'key={self.key!r} must name its key columns, as in ("word",)')
        object.__setattr__(self, "key", tuple(self.key))
        if self.mode is OutputMode.UPDATE and not self.key and self.write is None:
            raise self._wrong('update mode needs the key columns of its table, as in key=("word",)')

    def _wrong(self, why: str) -> InvalidScenario:
        return InvalidScenario(f"query {self.name!r}: {why}")

    @property
    def actors(self) -> tuple[str, ...]:
        """A task is whichever is held at a point when a fault strikes there."""
        return (DRIVER, TASK)

    @property
    def sources(self) -> tuple[str, ...]:
        return (SOURCE,)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """None: what passes within Spark is its own."""
        return ()

    @property
    def points(self) -> frozenset[Point]:
        return QUERY_POINTS | {Point.STARTED}

    @property
    def observables(self) -> tuple[str, ...]:
        return ("outputs", "state") if self.read is None else ("state",)

    @property
    def shows_progress(self) -> bool:
        """Whether it is seen when it takes its input: by the harness's sink, of the harness's source."""
        return self.read is None and self.source is None

    @property
    def checkpoint_every(self) -> int | None:
        """A query's checkpoints are its batches, not events of an actor."""
        return None

    @property
    def shape(self) -> OutputShape:
        return OutputShape(self.mode, self.key, self.read is not None, self.source is not None)

    @property
    def copyable(self) -> bool:
        """Whether all that it keeps lies in the run's folders."""
        return not self.stores and self.source is None

    @property
    def needs(self) -> tuple[str, ...]:
        """What its Spark must have, as far as that is known: operators that not every version has."""
        return tuple(getattr(self.transform, "needs", ()))

    @property
    def relayed(self) -> tuple[RelayedStore, ...]:
        """The stores whose messages are seen."""
        return tuple(store.relayed for store in self.stores if store.address)

    @property
    def configuration(self) -> dict[str, str]:
        """All that Spark is to be told for it, secrets included."""
        told = {**self.settings, **self.secrets}
        for name, brought in {"spark.jars.packages": self.packages, "spark.jars": self.jars}.items():
            # A setting of that name is no reason to go without them.
            if both := list(filter(None, [*brought, told.get(name, "")])):
                told[name] = ",".join(both)
        return told

    def without_secrets(self, text: str) -> str:
        """What is said of it, for records: Spark's messages and logs can quote its configuration."""
        return without_values(text, self.secrets)

    def batches(self, workload: Workload) -> list[list[Event]]:
        """Its input, batch by batch, the closing ones included."""
        return self.in_batches([event for batch in workload.batches(SOURCE) for event in batch])

    def in_batches(self, events: Sequence[Event]) -> list[list[Event]]:
        """The same of these events."""
        batches = [list(events[i : i + self.batch_events]) for i in range(0, len(events), self.batch_events)]
        last = events[-1]
        closing = (Event(SOURCE, last.seq + n, last.key, last.value, last.time + CLOSING_MS) for n in (1, 2))
        return [*batches, *([event] for event in closing)]

    def describe(self) -> dict[str, Any]:
        given = {"transform": self.transform, "write": self.write, "read": self.read, "source": self.source}
        return {
            "name": self.name,
            "kind": self.kind,
            "mode": str(self.mode),
            "key": list(self.key),
            "reads": self.read is not None,
            "code": {name: described(function) for name, function in given.items() if function is not None},
            "schema": self.schema,
            "stores": [store.name for store in self.stores],
            "settings": dict(self.settings),
            "secrets": sorted(self.secrets),
            "packages": list(self.packages),
            "jars": list(self.jars),
            "hooks": dict(self.hooks),
            "batch_events": self.batch_events,
            "accepts": list(self.accepts),
            # Which it was is among the versions: here is what was asked for.
            **({"spark": self.spark} if self.spark else {}),
        }

    def collate(self, history: History) -> Collation:
        # Not above: each life of a driver imports this, and none of them judges.
        from ..judging.references import collate_references

        return collate_references(history, self.shape)

    def collate_anew(self, history: History) -> Collation:
        return self.collate(history)


def without_values(text: str, secrets: Mapping[str, str]) -> str:
    for value in filter(None, secrets.values()):
        text = text.replace(value, "***")
    return text


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__).strip("_").replace("_", "-")
    return "query" if name == "<lambda>" else name
