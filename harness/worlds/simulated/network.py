"""The simulated network between slices: links that are FIFO and take time, and what can go wrong with them.

Control and recording run on links of their own, which are not in here and which nothing touches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from heapq import heappush
from typing import Any

from ...protocol.messages import Flow, Message, Open
from .event_queue import Action, EventQueue

Direction = tuple[str, int, str, int]
"""Sender, its incarnation, receiver, its incarnation: one direction of a connection."""
Path = tuple[str, str]
"""Names of a sender and of a receiver, whatever their incarnations: one direction of what a fault is aimed at."""

_OPENING = (Open,)
"""What a receiver says first on a new connection."""


@dataclass(eq=False)
class LinkDisturbance:
    """What one fault does to the network, and how many messages it got in the way of."""

    paths: tuple[Path, ...]
    count: int = 0


@dataclass(eq=False)
class Slower(LinkDisturbance):
    by: int = 0


@dataclass(eq=False)
class Broken(LinkDisturbance):
    links: dict[Direction, None] = field(default_factory=dict)
    """The directions that carry nothing any more."""
    reopened: Callable[[], None] = lambda: None


@dataclass
class _Disturbed:
    """The state of one path."""

    cuts: list[LinkDisturbance] = field(default_factory=list)
    slower: list[Slower] = field(default_factory=list)
    held: list[tuple[Action, Direction, Message]] = field(default_factory=list)
    """What was sent and cannot pass, in order."""


class Network:
    """Carries messages. What it has been given arrives though its sender dies, unless something is in the way."""

    def __init__(
        self,
        event_queue: EventQueue,
        random: Callable[[], float],
        delay: tuple[int, int],
        arrive: Callable[[Direction, Message], None],
        reopen: Callable[[Direction, Message], None],
        name_of: Callable[[str, int], str],
        lives: Callable[[str, int], bool],
        both_listen: Callable[[str, str], bool],
    ) -> None:
        """`reopen` takes what comes first on a new connection, and calls `accept` once the sender takes it in;
        `name_of` says what those who aim at it call an incarnation of a slice; `lives`, whether its memory is still
        somewhere; `both_listen`, whether two slices take input from one another."""
        self._event_queue = event_queue
        self._random = random
        self._low, self._spread = delay[0], delay[1] - delay[0]
        self._arrive = arrive
        self._reopen = reopen
        self._name_of = name_of
        self._lives = lives
        self._both_listen = both_listen
        self._unopened: set[Direction] = set()
        """Directions that carry again, but what is for their receivers only once these have opened their channels."""
        self._channels: dict[Direction, int] = {}
        """When the last message on a link arrives: links are FIFO."""
        self._paths: dict[Path, _Disturbed] = {}
        self._broken: dict[Direction, Broken] = {}
        self._disturbed = False

    def send(self, link: Direction, message: Message) -> None:
        if self._disturbed:
            self._send_disturbed(link, message)
            return
        # As in `_transmit`: a call for each message is too much.
        event_queue = self._event_queue
        when = event_queue.now + self._low + int(self._spread * self._random())
        earliest = self._channels.get(link, 0)
        if when < earliest:
            when = earliest
        self._channels[link] = when
        event_queue.order += 1
        heappush(event_queue.queue, (when, event_queue.order, self._arrive, (link, message)))

    def _transmit(self, action: Action, link: Direction, message: Message, more: int = 0) -> None:
        when = self._event_queue.now + self._low + int(self._spread * self._random()) + more
        when = max(when, self._channels.get(link, 0))
        self._channels[link] = when
        self._event_queue.at(when, action, link, message)

    def _send_disturbed(self, link: Direction, message: Message) -> None:
        action: Action = self._arrive
        broken = self._broken.get(link)
        if broken is not None:
            if not isinstance(message, _OPENING):
                broken.count += self._is_awaited(link)
                return
            # The receiver connects again. The other direction carries from when the sender accepts that.
            if self._both_listen(link[0], link[2]):
                self._unopened.add(link)
            self.mend(link)
            action = self._reopen
        elif link in self._unopened and message.flow is Flow.DOWNSTREAM:
            return
        elif isinstance(message, _OPENING) and _back(link) in self._unopened:
            action = self._reopen
        self._pass(action, link, message)

    def _pass(self, action: Action, link: Direction, message: Message) -> None:
        path = self._paths.get(self._path(link))
        if path is None:
            self._transmit(action, link, message)
        elif path.cuts:
            self._hold(path, action, link, message)
        else:
            for slower in path.slower:
                slower.count += self._is_awaited(link)
            self._transmit(action, link, message, sum(slower.by for slower in path.slower))

    def _hold(self, path: _Disturbed, action: Action, link: Direction, message: Message) -> None:
        for cut in path.cuts:
            cut.count += self._is_awaited(link)
        path.held.append((action, link, message))

    def _is_awaited(self, link: Direction) -> bool:
        """Whether somebody is there to miss what is sent on a link."""
        return self._lives(link[2], link[3])

    def _path(self, link: Direction) -> Path:
        sender, sends, to, receives = link
        return self._name_of(sender, sends), self._name_of(to, receives)

    def _on_its_way(self, wanted: Callable[[Direction], bool]) -> list[tuple[Action, Direction, Message]]:
        """Take from the network what has been sent on these links and has not arrived."""

        def is_wanted(action: Action, given: tuple[Any, ...]) -> bool:
            return (action is self._arrive or action is self._reopen) and wanted(given[0])

        return [(action, *given) for _, _, action, given in self._event_queue.take(is_wanted)]

    # Cuts and delays

    def cut(self, paths: Iterable[Path]) -> LinkDisturbance:
        """Hold back what is on its way, and what is sent, until `mend_cut`."""
        cut = LinkDisturbance(tuple(paths))
        for path in cut.paths:
            self._state(path).cuts.append(cut)
        for action, link, message in self._on_its_way(lambda link: self._path(link) in cut.paths):
            self._hold(self._paths[self._path(link)], action, link, message)
        return cut

    def mend_cut(self, cut: LinkDisturbance) -> None:
        """What was held back and no other cut holds arrives, unless the node that had to send it again is dead."""
        for name in cut.paths:
            path = self._paths[name]
            path.cuts.remove(cut)
            if not path.cuts:
                held, path.held = path.held, []
                for action, link, message in held:
                    if self._lives(link[0], link[1]):
                        self._pass(action, link, message)
        self._tidy()

    def slow(self, paths: Iterable[Path], by: int) -> Slower:
        """Let what is sent take so much longer, until `mend_slow`."""
        slower = Slower(tuple(paths), by=by)
        for path in slower.paths:
            self._state(path).slower.append(slower)
        return slower

    def mend_slow(self, slower: Slower) -> None:
        for path in slower.paths:
            self._paths[path].slower.remove(slower)
        self._tidy()

    def _state(self, path: Path) -> _Disturbed:
        self._disturbed = True
        return self._paths.setdefault(path, _Disturbed())

    def _tidy(self) -> None:
        self._paths = {name: path for name, path in self._paths.items() if path.cuts or path.slower}
        self._disturbed = bool(self._paths or self._broken or self._unopened)

    # Loss

    def lose_sent_by(self, senders: Collection[tuple[str, int]]) -> int:
        """Lose what these (slice, incarnation) have sent and what has not arrived. Returns how many messages."""
        return self._lose(lambda link: (link[0], link[1]) in senders)

    def count_sent_by(self, senders: Collection[tuple[str, int]], dying: Collection[tuple[str, int]]) -> int:
        """How many messages that would be, once these are dead."""
        links = [link for path in self._paths.values() for _, link, _ in path.held]
        links += [given[0] for _, _, action, given in self._event_queue.queue if action in (self._arrive, self._reopen)]
        return sum(link[:2] in senders and link[2:] not in dying and self._is_awaited(link) for link in links)

    def _lose(self, wanted: Callable[[Direction], bool]) -> int:
        """Returns how many messages are lost that somebody would have received."""
        lost = [link for _, link, _ in self._on_its_way(wanted)]
        for path in self._paths.values():
            lost += [link for _, link, _ in path.held if wanted(link)]
            path.held = [held for held in path.held if not wanted(held[1])]
        return sum(self._is_awaited(link) for link in lost)

    def break_connections(self, paths: Collection[Path], reopened: Callable[[], None]) -> Broken:
        """Lose what is on its way, and what is sent before the receivers have connected again. `reopened` is called
        when all have, or nobody is left who could."""
        broken = Broken(tuple(paths), reopened=reopened)
        lives = self._lives
        for sender, sends, to, receives in self._channels:
            link = sender, sends, to, receives
            if self._path(link) in paths and lives(sender, sends) and lives(to, receives):
                broken.links |= {link: None, _back(link): None}
        for link in broken.links:
            self.mend(link)
            self._broken[link] = broken
        broken.count = self._lose(lambda link: self._path(link) in paths)
        self._disturbed = bool(self._paths or self._broken or self._unopened)
        return broken

    def mend_broken(self, broken: Broken) -> None:
        """At the end: nobody connects again any more."""
        for link in list(broken.links):
            self.mend(link)

    def accept(self, link: Direction) -> None:
        """A new connection is accepted: the other direction carries too."""
        back = _back(link)
        if back in self._unopened:
            self._unopened.remove(back)
            self._tidy()
        self.mend(back)

    def mend(self, link: Direction) -> None:
        """Let a direction of a broken connection carry again."""
        broken = self._broken.pop(link, None)
        if broken is not None:
            del broken.links[link]
            self._disturbed = bool(self._paths or self._broken or self._unopened)
            if not broken.links:
                broken.reopened()


def _back(link: Direction) -> Direction:
    return link[2], link[3], link[0], link[1]
