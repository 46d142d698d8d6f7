"""What the functions that make faults share: targets that can be meant, amounts with their unit."""

from __future__ import annotations

from ..harness.errors import InvalidScenario
from ..harness.injection import FaultKind
from ..harness.schedule import Amount, Fault


def made(kind: FaultKind, *targets: str, one_way: bool = False, **amounts: Amount | None) -> Fault:
    """A fault without a trigger; what is None is left out.

    Raises InvalidScenario without a target, and for an amount without its unit.
    """
    call = kind.name.replace("-", "_")
    if not targets:
        raise InvalidScenario(f'{call}() needs a target, as in {call}("count-0")')
    given = tuple((name, amount) for name, amount in amounts.items() if amount is not None)
    kind.check_amounts(call, dict(given))
    return Fault(kind.name, targets, one_way=one_way, amounts=given)
