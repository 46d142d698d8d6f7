"""A store in what a scheme puts around it: where that fails, or answers what no store does, the mistake is the
scheme's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ..core.error_text import described_error
from ..core.errors import InvalidScheme, StreamproofError
from .messages import Checkpoint, Items
from .stores import CheckpointStore, FencedOff


class WrappedStore:
    """Passes on what it is asked. Raises InvalidScheme where what is around the store breaks its contract."""

    def __init__(self, store: CheckpointStore, called: str) -> None:
        """`called`: what put it there, in words."""
        self._store = store
        self._called = called

    def quiesce(self) -> None:
        with self._asked("quiesce"):
            self._store.quiesce()

    def capture(self) -> object:
        with self._asked("capture"):
            return self._store.capture()

    def restore(self, captured: object) -> None:
        with self._asked("restore"):
            self._store.restore(captured)

    def fence(self, slice_id: str, incarnation: int) -> Checkpoint | None:
        with self._asked("fence"):
            found = self._store.fence(slice_id, incarnation)
        return self._checkpoint("fence", found)

    def version(self, slice_id: str, upto: int) -> Checkpoint | None:
        with self._asked("version"):
            found = self._store.version(slice_id, upto)
        return self._checkpoint("version", found)

    def drop(self, slice_id: str, incarnation: int, below: int) -> None:
        with self._asked("drop"):
            self._store.drop(slice_id, incarnation, below)

    def write(self, checkpoint: Checkpoint) -> bool:
        with self._asked("write"):
            taken = self._store.write(checkpoint)
        return self._whether_taken("write", taken)

    def append(self, items: Items) -> bool:
        with self._asked("append"):
            taken = self._store.append(items)
        return self._whether_taken("append", taken)

    def items(self, slice_id: str) -> list[Items]:
        with self._asked("items"):
            found: object = self._store.items(slice_id)
        if isinstance(found, list) and all(isinstance(one, Items) for one in found):
            return found
        self._refuse("items", found, "a list of Items")

    @contextmanager
    def _asked(self, method: str) -> Iterator[None]:
        try:
            yield
        except (StreamproofError, FencedOff):
            raise
        except Exception as error:
            raise InvalidScheme(f"{self._called}: {method}() failed: {described_error(error)}") from error

    def _checkpoint(self, method: str, found: object) -> Checkpoint | None:
        if found is None or isinstance(found, Checkpoint):
            return found
        self._refuse(method, found, "a Checkpoint, or None where there is none")

    def _whether_taken(self, method: str, taken: object) -> bool:
        if isinstance(taken, bool):
            return taken
        self._refuse(method, taken, "True, or False where the writer has been fenced off")

    def _refuse(self, method: str, found: object, wanted: str) -> NoReturn:
        raise InvalidScheme(f"{self._called}: {method}() returned {found!r}; return {wanted}")
