"""The incarnations that the managers of a run have given out, in a file that outlives them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from ....core.errors import DamagedHistory, StorageFailed

_Numbers = dict[str, int]
_FILE: Final = "incarnations.json"


class Incarnations:
    """Slice -> the highest number that was given out. Written by one manager at a time."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the run's own, and no fault touches it. Raises StorageFailed."""
        self._path = folder / _FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot make the folder {folder}: {error.strerror}") from error

    def read(self) -> dict[str, int]:
        """Nothing where no manager has given out any. Raises StorageFailed and DamagedHistory."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Numbers)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StorageFailed(f"cannot read {self._path}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise DamagedHistory(f"{self._path} cannot be read: {error}") from error

    def write(self, newest: Mapping[str, int]) -> None:
        """Durable, in one step, when this returns. Raises StorageFailed."""
        draft = self._path.with_suffix(".draft")
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(newest))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}") from error
