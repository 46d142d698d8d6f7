"""A node that crashes, and each of its successors as soon as it has come up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ....core.errors import OwnFailure, StreamproofError
from ....recording.history import Proof

if TYPE_CHECKING:
    from .nodes import Nodes

_LOOK = 0.02
"""Seconds between two looks at whether it has come up."""


class CrashLoop:
    """Begins when the node has been killed once; `heal` lets the next one live."""

    def __init__(self, nodes: Nodes, node: str) -> None:
        self._nodes = nodes
        self._node = node
        self.kills = 1
        """So far."""
        self._healed = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._go_on, name=f"crashes {node} again", daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        try:
            while not self._healed.wait(_LOOK):
                if self._nodes.has_come_up(self._node):
                    self.kills += self._nodes.kill_node(self._node).bit
        except Exception as error:
            # In a thread nobody would hear of it.
            self._failure = error

    def heal(self) -> Proof:
        """Raises what a kill has failed with."""
        self._healed.set()
        self._thread.join()
        if isinstance(self._failure, StreamproofError):
            raise self._failure
        if self._failure is not None:
            raise OwnFailure(
                f"{self._node} could not be killed again: {type(self._failure).__name__}: {self._failure}"
            ) from self._failure
        return Proof(self.kills if self.kills > 1 else 0, "kills")
