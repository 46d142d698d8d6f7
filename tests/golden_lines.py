"""What golden histories are kept in: a text file a scheme, a line a run, with a form of its own for schedules.

The form depends on no class of the package, so that a file says the same when those are made over. A block begins with
its workload, what is claimed, and what else is judged:

    = windows<TAB>gap-recovery(8ev) recovers<TAB>exactly-once amnesia

and has a line for each run: the world, its seed, the schedule, the digest, and the verdicts in the order of the block.

    usual<TAB>1<TAB>crash . @count-0#1<received split-0#1 @11<TAB>0123456789abcdef<TAB>HaU lost-input=3

H holds, U is unknown, X contradicts itself; a small letter is violated, and says which of the lists of anomalies.
Faults stand one after the other: kind, targets (`.`: whoever is at the address), parameters as numbers or in
microseconds, and when: `@` an address (`<` before, `>` after), `t=` microseconds after the start, `n=` events that an
actor has taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.schedule import AtTime, Fault, FaultAmount

FOLDER = Path(__file__).resolve().parent / "golden"
_HEAD = "# Written by write.py, which stands beside it; tests/golden_lines.py says how it is read."
_BETWEEN = " ; "
_ADDRESS = re.compile(
    r"(?P<actor>[^\s/#]+)(?:/(?P<replica>\d+))?#(?P<incarnation>\d+)(?P<side>[<>])(?P<point>\S+)(?: (?P<key>.+))?"
)
_SIDES = {Side.BEFORE: "<", Side.AFTER: ">"}


class Planned(NamedTuple):
    """What is run: the same plan in the same block is the same run."""

    world: str
    seed: int
    schedule: str
    """As the file has it; empty: nothing fails."""


class Came(NamedTuple):
    """What came of it."""

    digest: str
    verdicts: str


@dataclass(frozen=True)
class Block:
    """The runs of one workload."""

    workload: str
    claims: str
    """What the scheme claimed of it when it was written, in the order of the verdicts."""
    others: tuple[str, ...]
    """What else is judged."""
    runs: tuple[tuple[Planned, Came], ...]


def path_of(scheme: str) -> Path:
    return FOLDER / f"{scheme}.txt"


def schemes_kept() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def read(scheme: str) -> list[Block]:
    """Empty where there is no file yet."""
    path = path_of(scheme)
    if not path.exists():
        return []
    blocks: list[Block] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            workload, claims, others = line.removeprefix("= ").split("\t")
            blocks.append(Block(workload, claims, tuple(others.split()), ()))
        elif line and not line.startswith("#"):
            world, seed, schedule, digest, verdicts = line.split("\t")
            run = Planned(world, int(seed), schedule), Came(digest, verdicts)
            last = blocks[-1]
            blocks[-1] = Block(last.workload, last.claims, last.others, (*last.runs, run))
    return blocks


def write(scheme: str, blocks: Iterable[Block]) -> None:
    lines = [_HEAD]
    for block in blocks:
        lines.append(f"= {block.workload}\t{block.claims}\t{' '.join(block.others)}")
        lines += ["\t".join((p.world, str(p.seed), p.schedule, *came)) for p, came in block.runs]
    path_of(scheme).write_text("\n".join(lines) + "\n", encoding="utf-8")


def encoded(schedule: Sequence[Fault]) -> str:
    text = _BETWEEN.join(map(_encoded, schedule))
    assert decoded(text) == tuple(schedule), f"this does not read back as it was: {text}"
    return text


def decoded(text: str) -> tuple[Fault, ...]:
    return tuple(map(_decoded, text.split(_BETWEEN))) if text else ()


def _encoded(fault: Fault) -> str:
    trigger = fault.trigger
    own = isinstance(trigger, Moment) and fault.targets == (trigger.actor,) and not trigger.taken
    parts = [fault.kind, "." if own else "+".join(fault.targets)]
    if fault.one_way:
        parts.append("one-way")
    parts += [f"{name}={_amount(amount)}" for name, amount in fault.amounts]
    if fault.duration is not None:
        parts.append(f"for={fault.duration.micros}us")
    match trigger:
        case AtTime(after=after):
            parts.append(f"t={after.micros}")
        case Moment(taken=taken, actor=actor) if taken:
            parts.append(f"n={actor}:{taken}")
        case Moment(point=point, side=side, key=key, actor=actor, incarnation=incarnation):
            parts.append(f"@{actor}#{incarnation}{_SIDES[side]}{point}" + (f" {key}" if key else ""))
    return " ".join(parts)


def _decoded(text: str) -> Fault:
    before, at, address = text.partition(" @")
    kind, whom, *rest = before.split()
    trigger: Moment | AtTime | None = _moment(address) if at else None
    duration: Duration | None = None
    one_way = False
    amounts: list[tuple[str, FaultAmount]] = []
    for part in rest:
        name, _, value = part.partition("=")
        match name:
            case "one-way":
                one_way = True
            case "for":
                duration = Duration(int(value.removesuffix("us")))
            case "t":
                trigger = AtTime(Duration(int(value)))
            case "n":
                actor, _, taken = value.partition(":")
                trigger = Moment(Point.RECEIVED, Side.AFTER, actor=actor, taken=int(taken))
            case _:
                amounts.append((name, _read_amount(value)))
    if whom == ".":
        assert isinstance(trigger, Moment), text
        assert trigger.actor is not None, text
        targets: tuple[str, ...] = (trigger.actor,)
    else:
        targets = tuple(whom.split("+"))
    return Fault(kind, targets, trigger, duration, one_way, tuple(amounts))


def _moment(text: str) -> Moment:
    match = _ADDRESS.fullmatch(text)
    assert match is not None, f"{text!r} is no address"
    side = Side.BEFORE if match["side"] == "<" else Side.AFTER
    replica = int(match["replica"] or 0)
    address = Address(
        match["actor"], int(match["incarnation"]), Point(match["point"]), match["key"] or "", side, replica
    )
    return Moment.exactly(address)


def _amount(amount: FaultAmount) -> str:
    return f"{amount.micros}us" if isinstance(amount, Duration) else repr(amount)


def _read_amount(text: str) -> FaultAmount:
    if text.endswith("us"):
        return Duration(int(text.removesuffix("us")))
    return float(text) if "." in text or "e" in text else int(text)


@dataclass(frozen=True)
class Difference:
    """A run of which something else came than is kept."""

    scheme: str
    workload: str
    planned: Planned
    kept: Came
    now: Came
    what: tuple[str, ...]
    """Of `digest`, and the names of guarantees whose verdict or anomalies are others."""

    def told(self, judged: Sequence[str]) -> Iterator[str]:
        """`judged`: the guarantees of its block."""
        yield said(self.scheme, self.workload, self.planned)
        if self.kept.digest != self.now.digest:
            yield f"  digest: was {self.kept.digest}, is {self.now.digest}"
        for name, was, now in _verdicts(judged, self.kept, self.now):
            if was != now:
                yield f"  {name}: was {was}, is {now}"


def said(scheme: str, workload: str, planned: Planned) -> str:
    """Which run it is."""
    schedule = planned.schedule or "no fault"
    return f"{scheme} on {workload}, world {planned.world}, seed {planned.seed}, {schedule}"


def difference(
    scheme: str, block: Block, planned: Planned, kept: Came, now: Came, judged: Sequence[str]
) -> Difference | None:
    if kept == now:
        return None
    others = (name for name, was, is_now in _verdicts(judged, kept, now) if was != is_now)
    digest = ("digest",) if kept.digest != now.digest else ()
    return Difference(scheme, block.workload, planned, kept, now, (*digest, *others))


def _verdicts(judged: Sequence[str], kept: Came, now: Came) -> list[tuple[str, str, str]]:
    """(guarantee, as kept, as it is now); as one where other guarantees are claimed by now."""
    was, is_now = verdicts_of(kept.verdicts), verdicts_of(now.verdicts)
    if len(was) != len(is_now):
        return [("the claims", kept.verdicts, now.verdicts)]
    return list(zip(judged, was, is_now, strict=True))


def verdicts_of(text: str) -> list[str]:
    """Each verdict in words, with the anomalies that it shows."""
    letters, *lists = text.split(" ")
    known = {"H": "HOLDS", "U": "UNKNOWN", "X": "UNKNOWN, contradicting itself"}
    return [known[one] if one in known else f"VIOLATED {lists[ord(one) - ord('a')]}" for one in letters]
