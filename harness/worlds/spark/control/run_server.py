"""The harness's end of a run on a real cluster: one listener, on which processes of the run hand in records, announce
crash points, and are answered.

It runs an event loop in a thread of its own, so that records are taken whatever the rest of the harness does. A fault
strikes in that loop, while the point holds.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from ....contracts.inflicting import inflict
from ....contracts.injection import FaultKind
from ....core import errors
from ....core.addresses import Address, Moment
from ....core.errors import OwnFailure, StorageRefused, StreamproofError
from ....core.quantities import Duration
from ....core.schedule import Fault
from ....core.slice_names import replica_name
from ....core.wire import Endpoint, Greeting, accept, decoded, frame, read_frame
from ....protocol.controller import Controller, Strike
from ....recording.history import FaultHealed, FaultMissed, FaultStruck, NodeGone, NodeUp, Placed, Stamp
from ....recording.recorder import MonotonicClock, Recorder
from ....recording.records import Record
from .freezes import Freezes
from .machines import ClusterMachines, Heal, SlowHeal, Striking
from .nodes import LOOPBACK
from .run_messages import Arrived, Begun, Failed, Go, Took, WriteRefused, agent_to_harness

T = TypeVar("T")
Arm = Callable[[Striking], ClusterMachines]
"""The cluster for one fault."""
Speak = Callable[[Greeting, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class _Span:
    """When a fault was in force, on the machine's monotonic clock, ns."""

    began: int
    ended: int | None = None
    """None: it is in force."""
    nodes: frozenset[str] = frozenset()
    """What it hit."""
    refusing: frozenset[str] = frozenset()
    """The nodes whose checkpoints it lets the disk refuse."""
    refused: int = 0
    """How often that was seen."""


class RunServer:
    """Takes records and arrivals for one run. Use it as a context manager; what `serve` registers is called in its
    loop."""

    def __init__(
        self,
        recorder: Recorder,
        schedule: tuple[Fault, ...],
        kinds: Mapping[str, FaultKind],
        seed: int,
        arm: Arm,
        noted: Callable[[Record], None],
        begun: Callable[[str, Begun], None] = lambda node, message: None,
        others: Mapping[str, Speak] | None = None,
        address: str = LOOPBACK,
    ) -> None:
        self.token = secrets.token_urlsafe(32)
        self.clock = MonotonicClock()
        self.failure: StreamproofError | None = None
        self.fault_in_force = ""
        self.signs = 0
        """How often anything was heard of the run, or done to it."""
        self.finished = False
        """The run has come to its end."""
        self._killed: dict[str, int] = {}
        """Node -> when it was last killed, on the machine's monotonic clock, ns."""
        self._ended_processes: set[tuple[str, int]] = set()
        """Nodes that lived on when a part of them was ended, and the processes of that, as the node numbers them."""
        self._recorder = recorder
        self._controller = Controller(schedule)
        self._kinds = kinds
        self._seed = seed
        self._arm = arm
        self._in_force: dict[int, tuple[Fault, list[tuple[str, Heal | SlowHeal]]]] = {}
        """Number -> a fault that lasts, its targets, and what ends what is done to them."""
        self._frozen: dict[int, dict[str, str]] = {}
        """Number -> the nodes that a fault froze, and the targets that they stand for."""
        self._freezes = Freezes()
        self._healing: set[asyncio.Task[None]] = set()
        self._spans: dict[int, _Span] = {}
        """Number -> of every fault that has struck."""
        self._noted = noted
        self._begun = begun
        self._others = dict(others or {})
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="run server", daemon=True)
        self._connections: set[asyncio.Task[Any]] = set()
        self.place: Endpoint = ("", 0)

    def __enter__(self) -> RunServer:
        self._thread.start()
        self.place = self.call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the server's loop, from another thread, and wait for it."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    async def _listen(self) -> Endpoint:
        self._server = await asyncio.start_server(self._answer, self._address, 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def _close(self) -> None:
        # Also of a run that has failed.
        await self._heal_all()
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # What is armed

    @property
    def pending(self) -> tuple[Fault, ...]:
        """The faults whose trigger has not come."""
        return tuple(fault for _, fault in self._controller.pending())

    @property
    def armed(self) -> tuple[Moment, ...]:
        return self._controller.armed

    def start_timers(self) -> None:
        """From now on time triggers count."""

        async def arm() -> None:
            self._began = self.clock()
            for when in self._controller.times():
                self._loop.call_later(when.seconds, self._due)

        self.call(arm())

    def _due(self) -> None:
        with self._failing("a fault at its time"):
            for strike in () if self.finished else self._controller.elapsed(Duration(self.clock() - self._began)):
                self._strike(strike, exact=True)

    def finish(self, drained: Callable[[], bool]) -> bool:
        """Whether the run has come to its end; from then on nothing strikes any more. Asked in the loop, so that no
        fault can come between the two. Raises what the end of a fault has failed with."""

        async def ask() -> bool:
            self.finished = self.finished or drained()
            if self.finished:
                await self._heal_all()
            return self.finished

        finished = drained() and self.call(ask())
        self._raise_failure()
        return finished

    @property
    def disturbed(self) -> bool:
        """Whether a fault that lasts is in force."""
        return bool(self._in_force)

    def missed(self) -> None:
        """Heal the faults that are in force, and log those whose trigger has not come. Raises what has ended the run,
        if it is the end of a fault that failed."""
        self.call(self._heal_all())
        self._raise_failure()
        for number, fault in self._controller.pending():
            self._recorder.log(FaultMissed(self.clock.stamp(), number, str(fault)))

    # What comes in

    def note(self, record: Record, when: int | None = None) -> None:
        """`when` is the machine's monotonic clock, in ns, where an agent says when it did this; else it is now."""
        self.signs += 1
        self._recorder.note(self.clock.stamp(when).at, record)
        self._noted(record)

    def placed(self, node: str, message: Begun) -> None:
        self.signs += 1
        name = replica_name(message.slice, message.replica)
        self._recorder.log(Placed(self.clock.stamp(message.when), name, message.incarnation, node))
        self._begun(node, message)

    def node_seen(self, node: str, up: bool, when: int, ended_for: str = "") -> None:
        """`when` is the monotonic clock, in ns, of whoever saw it; all processes of a machine share that clock.
        `ended_for` says why the harness has ended it, where it has."""
        self.signs += 1
        stamp = self.clock.stamp(when)
        self._recorder.log(NodeUp(stamp, node) if up else NodeGone(stamp, node, ended_for))
        self._forget_processes(node)

    def arrived(self, address: Address, taken: int, exact: bool) -> None:
        """A point is held. Returns when its host may go on, if it still lives: nobody takes it for lost meanwhile."""
        self.signs += 1
        for strike in () if self.finished else self._controller.arrived(address, taken):
            self._strike(strike, exact)

    def is_over(self, node: str, message: Arrived) -> bool:
        """Whether a fault has ended the host meanwhile, so that nobody holds this point any more."""
        return message.when <= self._killed.get(node, 0)

    def has_ended(self, node: str, pid: int) -> bool:
        """Whether a fault has ended that process, while its node lived on."""
        return (node, pid) in self._ended_processes

    def _forget_processes(self, node: str) -> None:
        """Of a node that has ended: its successor gives their numbers to others."""
        self._ended_processes = {one for one in self._ended_processes if one[0] != node}

    def refused(self, node: str, message: WriteRefused) -> None:
        """A disk takes no checkpoint. Where no fault explains it, it is the run's own, and ends it."""
        explained = False
        for span in self._spans.values():
            over = span.ended is not None and span.ended < message.began
            if node in span.refusing and span.began <= message.ended and not over:
                span.refused += 1
                explained = True
        if not explained:
            self.fail(StorageRefused(f"{message.why}, and no fault of the schedule was doing that to {node}"))

    def disturbed_since(self, when: int, node: str | None = None) -> bool:
        """Whether any fault, or one of this node, was in force at that time of the machine's monotonic clock, ns, or
        after it. Asked in the loop: there, a fault that strikes has struck."""
        spans = (span for span in self._spans.values() if node is None or node in span.nodes)
        return any(span.ended is None or span.ended >= when for span in spans)

    def fail(self, error: StreamproofError) -> None:
        """End the run with this error; the first one counts."""
        if self.failure is None:
            self.failure = error

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """What fails in here ends the run: in the loop nobody else would hear of it."""
        try:
            yield
        except StreamproofError as error:
            self.fail(error)
        except Exception as error:
            failure = OwnFailure(f"{what} failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self.fail(failure)

    def _strike(self, strike: Strike, exact: bool) -> None:
        self.signs += 1
        self.fault_in_force = str(strike.fault)
        address = None if strike.address is None else str(strike.address)
        struck = self.clock.stamp()
        number, fault = strike.number, strike.fault
        random = Random(f"{self._seed}/{number}")
        span = self._spans[number] = _Span(time.monotonic_ns())
        machines = self._arm(
            Striking(
                exact,
                lambda: self.heal(number),
                random,
                partial(self._heal_soon, number),
                self._freezes,
                by_the_clock=address is None,
                refused=lambda: span.refused,
            )
        )
        try:
            bites = inflict(self._kinds[fault.kind], machines, fault)
        except StreamproofError as error:
            self.fail(error)
            return
        span.nodes = frozenset(machines.hit)
        span.refusing = frozenset(machines.refusing)
        for node in machines.ended:
            self._forget_processes(node)
        for bite in bites:
            if bite.node is not None and bite.gone:
                self._killed[bite.node] = time.monotonic_ns()
                if bite.node not in machines.ended:
                    self._ended_processes |= {(bite.node, pid) for pid in bite.pids}
            self._recorder.log(FaultStruck(struck, number, str(fault), address, bite))
        for other, frozen in self._frozen.items():
            # What has ended is frozen no more, nor is its successor.
            for node in machines.ended & frozen.keys():
                self.heal(other, frozen[node], struck)
        self._frozen[number] = machines.frozen
        if machines.lasting:
            self._in_force[number] = fault, machines.lasting
            if fault.duration is not None:
                self._loop.call_later(fault.duration.seconds, self.heal, number)
        else:
            span.ended = time.monotonic_ns()

    def heal(self, number: int, target: str | None = None, since: Stamp | None = None) -> None:
        """Begin to end a fault, or what it does to one of its targets, if that is in force. `since` is when it ended by
        itself."""
        task = self._loop.create_task(self._heal(number, target, since))
        self._healing.add(task)
        task.add_done_callback(self._healing.discard)

    def _heal_soon(self, number: int, target: str) -> None:
        """From any thread: what has ended by itself is not in force any more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.heal, number, target)

    async def _heal(self, number: int, only: str | None, since: Stamp | None = None) -> None:
        fault, in_force = self._in_force.pop(number, (None, []))
        lasting = [one for one in in_force if only in (None, one[0])]
        left = [one for one in in_force if one not in lasting]
        if fault is not None and left:
            self._in_force[number] = fault, left
        for target, heal in lasting:
            # What it does to the other targets ends all the same.
            with self._failing("the end of a fault"):
                healed = since or self.clock.stamp()
                proof = heal()
                if isinstance(proof, Awaitable):
                    proof = await proof
                self._recorder.log(FaultHealed(healed, number, str(fault), target, proof))
                self.signs += 1
        if lasting and number not in self._in_force:
            self._spans[number].ended = time.monotonic_ns()
        if lasting and not self._in_force:
            self.fault_in_force = ""

    async def _heal_all(self) -> None:
        """The end of the run has come for all that is in force. Returns when it has ended."""
        for number in list(self._in_force):
            self.heal(number)
        await asyncio.gather(*self._healing)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with self._failing("a connection of the run"):
                greeting = await accept(reader, self.token)
                if greeting is not None:
                    await self._converse(greeting, reader, writer)
        except asyncio.CancelledError:
            # Only `_close` cancels. asyncio would print what a connection's task raises at its end.
            return
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if greeting.purpose in self._others:
            await self._others[greeting.purpose](greeting, reader, writer)
            return
        while (body := await read_frame(reader)) is not None:
            message = decoded(agent_to_harness, body)
            match message:
                case Took(when=when, record=record):
                    self.note(record, when)
                case Begun():
                    self.placed(greeting.node, message)
                case Arrived() if self.is_over(greeting.node, message):
                    continue
                case Arrived(address=address, taken=taken, exact=exact):
                    self.arrived(address, taken, exact)
                    writer.write(frame(Go()))
                case WriteRefused():
                    self.refused(greeting.node, message)
                case Failed():
                    self.fail(from_afar(message))


def from_afar(failed: Failed) -> StreamproofError:
    """The error of the taxonomy that another process of the run named."""
    kind = getattr(errors, failed.error, OwnFailure)
    if isinstance(kind, type) and issubclass(kind, StreamproofError):
        error = kind.__new__(kind)
        Exception.__init__(error, failed.message)
        return error
    return OwnFailure(failed.message)
