"""What a frozen node does not do, until it goes on.

It is frozen between two steps of its own, wherever that is: in the middle of what it does about one input, too. What it
would do next, and what comes in, is put off in order, and done first when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.messages import Message
from ...recording.records import Record
from .event_queue import Action
from .network import Direction

NoteRecord = Callable[[Record], None]
SendOn = Callable[[Direction, Message], None]


class Freezable:
    """Frozen as long as one who has frozen it has not let go."""

    def __init__(self, note: NoteRecord, send_on: SendOn) -> None:
        self.note = note
        self.send_on = send_on
        self._awake = note, send_on
        self.freezes = 0
        """By how many it is frozen now."""
        self.times_frozen = 0
        self.put_off = 0
        """How much was ever put off."""
        self._held: list[tuple[Action, tuple[Any, ...]]] = []

    def freeze(self) -> None:
        self.freezes += 1
        if self.freezes == 1:
            self.times_frozen += 1
            # What is done most often pays nothing for it while the node is not frozen.
            note, send_on = self._awake

            def put_off_note(record: Record) -> None:
                self.puts_off(note, record)

            def put_off_send(link: Direction, message: Message) -> None:
                self.puts_off(send_on, link, message)

            self.note, self.send_on = put_off_note, put_off_send

    def let_go(self) -> list[tuple[Action, tuple[Any, ...]]]:
        """Returns what to do first, once nobody holds it any more."""
        self.freezes -= 1
        return [] if self.freezes else self.forget()

    def forget(self) -> list[tuple[Action, tuple[Any, ...]]]:
        """Frozen by nobody any more. Returns what was put off."""
        self.freezes = 0
        self.note, self.send_on = self._awake
        held, self._held = self._held, []
        return held

    def puts_off(self, action: Action, *given: Any) -> bool:
        """Whether it is frozen, and does this later."""
        if not self.freezes:
            return False
        self._held.append((action, given))
        self.put_off += 1
        return True
