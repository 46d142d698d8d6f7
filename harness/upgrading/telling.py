"""What is said of an upgrade, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..core.verdicts import Status
from ..core.wording import counted
from .outcomes import Aside, Switched, UpgradeOutcome, Way, without_numbers
from .record import UpgradeRecord

_OF_STREAM: Final = re.compile(r"\[STREAM_FAILED\] Query \[id = \S+ runId = \S+\] terminated with exception: ")
"""What Spark says before it comes to the point."""
_LONGEST: Final = 300
"""Characters of an error that are shown."""
_ROWS: Final = 4
ORDER: Final = (
    UpgradeOutcome.WRONG,
    UpgradeOutcome.CRASH_LOOP,
    UpgradeOutcome.REFUSED,
    UpgradeOutcome.UNKNOWN,
    UpgradeOutcome.CONTINUES,
)


@dataclass(frozen=True)
class OutcomeLine:
    """All states from which the same came about."""

    way: Way
    outcome: UpgradeOutcome
    status: Status
    states: int
    points: int
    said: str
    """Why, of the first of them."""
    more: tuple[str, ...]
    """What else is to be said of it: rows, files, notes."""
    first: str
    """The first crash, in words."""
    folder: str


def outcome_lines(record: UpgradeRecord) -> list[OutcomeLine]:
    """What came about, the worst first."""
    groups: dict[object, list[Switched]] = {}
    for one in record.switched:
        groups.setdefault(_alike(one), []).append(one)
    lines = [_line(group) for group in groups.values()]
    return sorted(lines, key=lambda line: (line.way is Way.ROLLBACK, ORDER.index(line.outcome), -line.states))


def _alike(one: Switched) -> object:
    why = without_numbers(one.why) if one.outcome is not UpgradeOutcome.WRONG else ""
    return one.way, one.outcome, one.status, one.clean, why, one.committed < 0, one.early, one.again


def _line(group: Sequence[Switched]) -> OutcomeLine:
    # What the version before does beside is known of some of them.
    first = next((one for one in group if one.aside is not None and not one.aside.like), group[0])
    return OutcomeLine(
        first.way,
        first.outcome,
        first.status,
        len(group),
        sum(len(one.crashes) for one in group),
        shortened_why(first.why),
        tuple(_more(first, group)),
        str(first.crashes[0]),
        first.folder,
    )


def _more(first: Switched, group: Sequence[Switched]) -> Iterator[str]:
    if first.early:
        yield "with an input that ends before any of it comes again"
    if first.again:
        yield "started again, on what it has left itself: it had ended in order after a part of the input"
    yield from first.rows[:_ROWS]
    if len(first.rows) > _ROWS:
        yield f"and more rows: {first.folder}"
    if first.outcome is UpgradeOutcome.REFUSED:
        if first.clean:
            yield "nothing was written: every file in its folders is as it was"
        else:
            shown = ", ".join(first.changed[:3])
            more = f" and {len(first.changed) - 3:,} more" if len(first.changed) > 3 else ""
            yield f"it left something behind: {shown}{more}"
    elif first.changed:
        yield f"it changed {counted(len(first.changed), 'file')}: {', '.join(first.changed[:3])}"
    if first.aside is not None:
        yield from _beside(first.way, first.aside)
        alone = first.aside.without if first.aside.after else first.aside
        if alone is not None and alone.fails:
            yield "nobody is blamed: it is no better without the change"
    yield from _notes(group)


def _notes(group: Sequence[Switched]) -> Iterator[str]:
    """What is to be said of any of them, once each, numbers aside; and of how many, where it is not all."""
    said: dict[str, list[str]] = {}
    for one in group:
        for note in one.notes:
            said.setdefault(without_numbers(note), []).append(note)
    for notes in said.values():
        yield notes[0] if len(notes) == len(group) else f"{notes[0]} (of {len(notes):,} of these)"


def _beside(way: Way, aside: Aside) -> Iterator[str]:
    who = way.before
    what = f"the {who} version, from what it left" if aside.after else "without the change, from the same state"
    like = " (tried of a state like it)" if aside.like else ""
    why = f": {shortened_why(aside.why)}" if aside.why else ""
    yield f"{what}{like}: {aside.outcome}{why} ({aside.folder})"
    if aside.without is not None:
        yield from _beside(way, aside.without)


def shortened_why(text: str) -> str:
    one = _OF_STREAM.sub("", " ".join(text.split()))
    return one if len(one) <= _LONGEST else f"{one[:_LONGEST]}..."


def states_tried(record: UpgradeRecord) -> dict[Way, int]:
    """From how many states the other version went on, each way that was planned."""
    return {way: sum(1 for one in record.switched if one.way is way and not one.once_more) for way in record.points}


def tried_of(record: UpgradeRecord) -> Iterator[str]:
    """The same in words, with the crash points that left them."""
    for way, count in states_tried(record).items():
        back = "" if way is Way.UPGRADE else "back: "
        yield f"{back}{counted(count, 'crash state')} tried, of {counted(record.points[way], 'crash point')}"


_NOT_ON_STATE: Final = {
    Way.UPGRADE: "it continues only where nothing had been committed: no state of the old version was taken over",
    Way.ROLLBACK: (
        "back, it continues only where the new version had committed nothing: no state of the new version's was taken "
        "over"
    ),
}


def caveats(record: UpgradeRecord) -> Iterator[str]:
    """What would fool whoever reads no more than the outcomes."""
    continued = [one for one in record.switched if one.outcome is UpgradeOutcome.CONTINUES]
    if continued and not record.differ_in and record.old.versions == record.new.versions:
        yield "OLD and NEW say the same of themselves: as far as that shows, nothing was changed"
    if continued and record.same_table and "code" in record.differ_in:
        yield "OLD and NEW make the same table of this input: the change was not exercised by what they compute"
    elif continued and record.same_table and "settings" in record.differ_in:
        yield "OLD and NEW make the same table of this input: whatever a setting would change in it was not exercised"
    reads = [side.subject.get("code", {}).get("read") for side in (record.old, record.new)]
    if continued and None not in reads and reads[0] != reads[1]:
        yield (
            "OLD's read is another than NEW's: what each version has made is read by its own, and who goes on reading "
            "as before is not looked at"
        )
    columns = [", ".join(side.columns) for side in (record.old, record.new)]
    if continued and all(columns) and columns[0] != columns[1]:
        old, new = map(shortened_why, columns)
        yield (
            f"OLD gives ({old}), and NEW ({new}): rows are compared by the names of their columns and by value, and "
            "what a sink makes of it that goes by the order of columns, or by their types, is not looked at"
        )
    if continued:
        yield (
            "starts after the second of the version that goes on, and one after it was killed there itself, are not "
            "looked at"
        )
    if continued and any(side.shape.reads for side in (record.old, record.new)):
        yield (
            "a trigger that write sets is not looked at: each version takes all that is there, and ends "
            "(availableNow), unless write starts the stream itself"
        )
    for way in record.ways_not_on_state:
        if any(one.way is way for one in continued):
            yield _NOT_ON_STATE[way]
    for said in dict.fromkeys(said for one in continued for said in one.kept):
        yield f"Spark keeps a setting: {said}; what that would change was not exercised"
    kept = sum(1 for one in continued if any("of before the change" in note for note in one.notes))
    if kept:
        yield f"in {counted(kept, 'state')}, rows of the table are of before the change: no later input touched them"
    if record.cut_short:
        yield f"it did not come to its end: {record.cut_short}"
    if record.not_tried:
        yield f"{counted(len(record.not_tried), 'crash point')} not tried; the first: {record.not_tried[0]}"
    yield (
        f"crashes in batches 0 to {record.last_changed} of {record.batches}: each key comes again in those up to "
        f"{record.last_counting}, for the version that goes on"
    )
    yield from record.not_looked_at
