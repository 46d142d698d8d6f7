"""What the functions that make faults share: targets that can be meant, amounts with their unit."""

from __future__ import annotations

from ..harness.contracts.injection import Cannot, FaultKind
from ..harness.core.addresses import Moment, Point, Side
from ..harness.core.errors import InvalidScenario
from ..harness.core.places import Places
from ..harness.core.schedule import Fault, FaultAmount


def made_fault(kind: FaultKind, *targets: str, one_way: bool = False, **amounts: FaultAmount | None) -> Fault:
    """A fault without a trigger; what is None is left out.

    Raises InvalidScenario without a target, and for an amount without its unit.
    """
    call = kind.name.replace("-", "_")
    if not targets:
        raise InvalidScenario(f'{call}() needs a target, as in {call}("count-0")')
    given = tuple((name, amount) for name, amount in amounts.items() if amount is not None)
    kind.check_amounts(call, dict(given))
    return Fault(kind.name, targets, one_way=one_way, amounts=given)


def not_different_nodes(fault: Fault, places: Places) -> str:
    """Why a fault that needs nodes by their names, each in its own role, cannot have these."""
    strangers = [target for target in fault.targets if target not in places.names]
    if strangers:
        return f"{strangers[0]} is no node; name nodes, of: {', '.join(places.names)}"
    nodes = [node for target in fault.targets for node in places.racks.get(target, (target,))]
    twice = [node for node in nodes if nodes.count(node) > 1]
    return f"{twice[0]} is named twice, and can be in one place only" if twice else ""


def not_on_workers(fault: Fault, places: Places) -> str:
    """Why a fault of what only workers have cannot have these targets."""
    without = [target for target in fault.targets if target in places.others]
    return f"there is no executor on the {without[0]}; name a worker, or what runs on one" if without else ""


def only_at_messages(side: Side, otherwise: str) -> Cannot:
    """Of a fault that takes what is held before, or after, a message to a store outside, and can be at no other
    moment: then it says `otherwise`."""

    def cannot(fault: Fault, places: Places) -> str:
        moment = fault.trigger
        if isinstance(moment, Moment) and (moment.point, moment.side) == (Point.MESSAGE, side):
            return ""
        return otherwise

    return cannot
