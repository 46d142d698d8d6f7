"""Whose mistake it is that a slice or a coordinator fails at work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..core.error_text import described_error
from ..core.errors import InvalidOperator, InvalidScheme, OwnFailure, StreamproofError
from ..core.slice_names import operator_of
from .coordinator import CoordinatorSpec
from .effects import Input, Receive

if TYPE_CHECKING:
    from .spec import SliceSpec

_OURS: Final = __name__.partition(".")[0]


def blame_user(spec: SliceSpec | CoordinatorSpec, error: Exception) -> None:
    """Raises InvalidScheme where what was raised, which nobody raises on purpose, comes of a scheme's own code, and
    InvalidOperator where a mechanism of streamproof's failed by what an operator has told it: a slice that is made of
    nothing but streamproof's own fails by a mistake of ours."""
    if isinstance(error, StreamproofError) and type(error) is not OwnFailure:
        return
    names = list(dict.fromkeys(_of_others(spec)))
    if not names:
        _blame_operator(spec, error)
        return
    said = str(error) if isinstance(error, OwnFailure) else described_error(error)
    raise InvalidScheme(f"{spec.slice_id}, made of {', '.join(names)}, failed: {said}") from error


def _blame_operator(spec: SliceSpec | CoordinatorSpec, error: Exception) -> None:
    stage = None if isinstance(spec, CoordinatorSpec) else spec.topology.stages.get(operator_of(spec.slice_id))
    if stage is None or isinstance(error, OwnFailure) or _is_ours(type(stage.operator)):
        return
    name = type(stage.operator).__qualname__
    raise InvalidOperator(
        f"operator of {spec.slice_id} ({name}), or what it returned: {described_error(error)}"
    ) from error


def blame_sender(slice_id: str, given: Input, error: Exception) -> None:
    """Raises InvalidScheme where a message that has come in does not hold what its kind says: then whoever sent it is
    to blame for what a slice raises that is made of nothing but streamproof's own."""
    if not isinstance(given, Receive) or (isinstance(error, StreamproofError) and type(error) is not OwnFailure):
        return
    message = given.message
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))
    except (TypeError, ValueError, OverflowError) as why:
        raise InvalidScheme(
            f"{given.neighbour} sent {slice_id} {message!r}, which is no such message: {why}"
        ) from error


class blamed:
    """Raises InvalidScheme for what `blame_user` finds to be a mistake of a scheme's own."""

    __slots__ = ("_spec",)

    def __init__(self, spec: SliceSpec | CoordinatorSpec) -> None:
        self._spec = spec

    def __enter__(self) -> None:
        """Nothing has been raised yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            blame_user(self._spec, error)


def _of_others(spec: SliceSpec | CoordinatorSpec) -> Iterator[str]:
    """What it is made of, as far as that is not streamproof's own."""
    if isinstance(spec, CoordinatorSpec):
        parts: list[Any] = [spec.coordinator]
    else:
        parts = [*spec.setup.mechanisms, spec.setup.merge, spec.wrap]
    for part in parts:
        while isinstance(part, partial):
            part = part.func
        one = part if hasattr(part, "__qualname__") else type(part)
        if part is not None and not _is_ours(one):
            yield one.__qualname__


def _is_ours(one: Any) -> bool:
    return bool(one.__module__.partition(".")[0] == _OURS)
