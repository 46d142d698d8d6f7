"""Adjusters and adjustable slices that break one rule of how settings change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import msgspec

from ...harness.protocol.coordinator import Coordinating, CoordinatorMachine
from ...harness.protocol.effects import Effect, Input, Receive
from ...harness.protocol.machine import Slice
from ...harness.protocol.spec import Setup
from ..mechanisms.adjusting import Adjuster, Adjustment, Adjustments, CameSoFar, MayTake


def adjusting_by(broken: type[Adjustment]) -> Callable[[Setup], Setup]:
    """With an adjuster at work that breaks a rule."""

    def changed(setup: Setup) -> Setup:
        return replace(setup, coordinators=tuple(_breaking(one, broken) for one in setup.coordinators))

    return changed


def _breaking(one: Any, broken: type[Adjustment]) -> Any:
    if not isinstance(one, Adjuster):
        return one

    class Breaking(type(one)):  # type: ignore[misc]
        def attach(self, machine: CoordinatorMachine) -> Coordinating:
            return broken(machine, self)

    return Breaking(**{field.name: getattr(one, field.name) for field in fields(one)})


class ForgetsChanges(Adjustment):
    """What its predecessor had made durable it does not read."""

    def started(self, kept: Adjustments | None) -> None:
        super().started(None)


class TellsAtOnce(Adjustment):
    """What is not durable yet is told already."""

    def hear(self, member: str, report: CameSoFar) -> None:
        super().hear(member, report)
        told = self._told(member, self.next)
        if told.horizon > report.horizon or len(told.changes) > report.known:
            self.machine.tell(member, told)


class ChangesTooEarly(Adjustment):
    """A change holds from where the slice is that has reported, whoever has gone further."""

    def horizon(self, known: Adjustments, member: str) -> int:
        if known is self.next and self.reports.get(member):
            return max(one.position for one in list(self.reports[member].values())[:1])
        return super().horizon(known, member)


def takes_changes_at_once(machine: Slice, given: Input) -> list[Effect]:
    """A change is taken when it is heard of."""
    return machine.on(_with_changes(given, lambda change: msgspec.structs.replace(change, since=0)))


def is_deaf_to_changes(machine: Slice, given: Input) -> list[Effect]:
    """It hears how far it may go, and not what changes."""
    return machine.on(_with_changes(given, lambda change: None))


def _with_changes(given: Input, made: Callable[[Any], Any]) -> Input:
    if not isinstance(given, Receive) or not isinstance(given.message, MayTake):
        return given
    changes = [change for change in map(made, given.message.changes) if change is not None]
    return Receive(given.neighbour, msgspec.structs.replace(given.message, changes=changes))
