"""The amounts that a guarantee takes, and how they are written on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .errors import InvalidScenario
from .guarantees import WITHIN, Amount, Guarantee
from .quantities import Duration, Events, is_finite, seconds

_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_WRITTEN: Final[dict[type, str]] = {Duration: "10s", Events: "500events", int: "3", float: "0.5", str: "name"}
_CALLED: Final[dict[type, str]] = {
    Duration: "a duration",
    Events: "a number of events",
    int: "a whole number",
    float: "a number",
    str: "a name",
}


@dataclass(frozen=True)
class Parameter:
    """An amount that a claim of a guarantee states."""

    name: str
    kinds: tuple[type[Duration] | type[Events] | type[int] | type[float] | type[str], ...]
    """What it can be; each has its unit, but for plain numbers."""
    meaning: str
    required: bool = False
    least: Duration | Events | float | None = None
    """What it is at least, where it is of that kind; None: whatever there is of the kind."""

    @property
    def called(self) -> str:
        return " or ".join(_CALLED[kind] for kind in self.kinds)

    @property
    def example(self) -> str:
        """As the command line takes it."""
        return _WRITTEN[self.kinds[0]]

    @property
    def described(self) -> dict[str, object]:
        """What a program may want to know of it."""
        return {
            "name": self.name,
            "is": self.called,
            "meaning": self.meaning,
            "required": self.required,
            "as": self.example,
        }

    def check(self, who: str, amount: object) -> None:
        """Raises InvalidScenario for what it cannot be."""
        number = isinstance(amount, int | float) and not isinstance(amount, bool)
        good = isinstance(amount, self.kinds) and not isinstance(amount, bool)
        if not good and not (number and float in self.kinds):
            raise InvalidScenario(f"the claim {who} has {self.name}={amount!r}; that is to be {self.called}")
        if isinstance(amount, int | float) and not is_finite(amount):
            # Nothing is more than infinity, and nothing compares with what is no number.
            raise InvalidScenario(f"the claim {who} has {self.name}={amount!r}; that is to be a number that is finite")
        if self._is_less(amount):
            raise InvalidScenario(f"the claim {who} has {self.name}={amount!r}; that is to be {self.least} or more")

    def _is_less(self, amount: object) -> bool:
        match amount, self.least:
            case (Duration(), Duration()) | (Events(), Events()) | (int() | float(), int() | float()):
                return bool(amount < self.least)  # type: ignore[operator]
            case _:
                return False

    def parse(self, who: str, text: str) -> Amount:
        """Raises InvalidScenario for what is none."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?) ?([a-z]*)", text.strip())
        if found is not None:
            number, unit = found.groups()
            for kind in self.kinds:
                amount = _amount(kind, number, unit)
                if amount is not None:
                    return amount
        if str in self.kinds and text.strip():
            return text.strip()
        raise InvalidScenario(
            f"the claim {who} has {self.name}={text!r}; that is to be {self.called}, written as in {self.example}"
        )


def _amount(kind: type, number: str, unit: str) -> Amount | None:
    if kind is str:
        return None
    if kind is Duration:
        return seconds(float(number) * _SECONDS[unit]) if unit in _SECONDS else None
    if kind is float:
        return None if unit else float(number)
    if not number.isdecimal():
        return None
    if kind is Events:
        return Events(int(number)) if unit in ("", "event", "events") else None
    return None if unit else int(number)


def check_stated(guarantee: Guarantee, parameters: Sequence[Parameter]) -> None:
    """Raises InvalidScenario for a claim that lacks an amount, or states one that its guarantee does not take."""
    stated = guarantee.stated
    for parameter in parameters:
        if parameter.name in stated:
            parameter.check(guarantee.name, stated.pop(parameter.name))
        elif parameter.required:
            as_what = "as its bound" if parameter.name == WITHIN else f"as its {parameter.name}"
            raise InvalidScenario(f"the claim {guarantee.name} needs {parameter.called} {as_what}: {parameter.meaning}")
    if stated:
        takes = ", ".join(parameter.name for parameter in parameters) or "nothing"
        raise InvalidScenario(f"the claim {guarantee.name} does not take {', '.join(stated)}; it takes: {takes}")


def stating(name: str, amounts: dict[str, Amount], parameters: Sequence[Parameter]) -> Guarantee:
    """A claim of a guarantee with these amounts. Raises InvalidScenario."""
    within = amounts.get(WITHIN)
    if not (within is None or isinstance(within, Duration | Events)):
        raise InvalidScenario(f"the claim {name} has {WITHIN}={within!r}; that is no duration and no number of events")
    claim = Guarantee(name, within, tuple((one, amount) for one, amount in amounts.items() if one != WITHIN))
    check_stated(claim, parameters)
    return claim


def parse_claim(text: str, name: str, parameters: Sequence[Parameter]) -> Guarantee:
    """`recovers-within:10s`, or with the names of the parameters: `gap-recovery:within=500events,opens_within=20ms`.

    Raises InvalidScenario for amounts that the guarantee does not take, or cannot do without.
    """
    written = text.removeprefix(name).removeprefix(":")
    amounts: dict[str, Amount] = {}
    known = {parameter.name: parameter for parameter in parameters}
    for place, piece in enumerate(filter(None, written.split(","))):
        left, equals, right = piece.partition("=")
        usual = parameters[place].name if place < len(parameters) else ""
        given, amount = (left.strip(), right) if equals else (usual, left)
        if given not in known:
            takes = ", ".join(f"{one.name} (as in {one.example})" for one in parameters) or "nothing"
            raise InvalidScenario(f"the claim {text!r} states {piece!r}, which {name} does not take; it takes: {takes}")
        amounts[given] = known[given].parse(name, amount)
    try:
        return stating(name, amounts, parameters)
    except InvalidScenario as error:
        wanted = ",".join(one.example for one in parameters if one.required)
        raise InvalidScenario(f"{error}; write it as in {name}:{wanted}" if wanted else str(error)) from error
