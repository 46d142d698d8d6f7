"""What a search and its driver on Spark say to each other, over a pair of sockets that nobody else has."""

from __future__ import annotations

import msgspec

from ..worlds.spark.control.run_messages import Failed
from .bench import Outcome
from .pieces import Piece


class PieceBatch(msgspec.Struct, frozen=True, tag="part", array_like=True):
    """Search to driver: try these pieces. A part is one task."""

    number: int
    pieces: tuple[Piece, ...]
    seconds: float | None
    """How long, at most."""


class PieceOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What came of a piece, trial by trial."""

    piece: Piece
    outcomes: list[Outcome]
    random: bool
    through: bool
    """Whether all of its trials were tried."""
    seconds: float
    lost: str = ""
    """How the workers that tried it were lost, where nobody could."""
    failed: Failed | None = None
    """How the user's code failed under the trial after those."""


class SparkReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """Driver to search: Spark is there."""

    cores: int


class Done(msgspec.Struct, frozen=True, tag="done", array_like=True):
    """Driver to search."""

    number: int
    worked: list[PieceOutcome]


class Dropped(msgspec.Struct, frozen=True, tag="dropped", array_like=True):
    """Driver to search: the worker that tried this part was lost; others try its pieces, each by itself."""

    number: int
    why: str


class SearchStopped(msgspec.Struct, frozen=True, tag="stopped", array_like=True):
    """Driver to search: the cluster works for it no more."""

    why: str


FromDriver = SparkReady | Done | Dropped | SearchStopped | Failed
FromWorker = Done | Failed

from_search = msgspec.msgpack.Decoder(PieceBatch)
from_driver = msgspec.msgpack.Decoder(FromDriver)
from_worker = msgspec.msgpack.Decoder(FromWorker)
