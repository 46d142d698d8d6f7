"""The record of an upgrade: a folder that says what became of every state that was tried, with the runs by which it is
judged again.

```
upgrade.json       all of it: `UpgradeRecord`
runs/<name>/       the run folders
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from ..core.errors import (
    DamagedHistory,
    ExitStatus,
    InvalidHistory,
    InvalidScenario,
    StorageFailed,
    UnknownHistoryVersion,
)
from ..core.guarantees import Guarantee
from ..judging.oracle import Oracle
from ..judging.shapes import OutputMode, OutputShape
from ..recording.claims_and_faults import SavedClaim
from ..recording.folder import read_description, read_history, write_json
from .outcomes import Aside, Basis, Switched, Way, exit_status_of
from .switch_judging import Sides, SwitchJudgement, judge_switch, sides_beside

VERSION: Final = 2
UPGRADE_FILE: Final = "upgrade.json"


class SideRecord(msgspec.Struct, frozen=True):
    """One of the two versions."""

    origin: str
    subject: dict[str, Any]
    """What the query says of itself, with its code's hash."""
    versions: dict[str, str]
    settings: dict[str, str] = {}
    """Spark's, of the session that it ran in, without those that hold secrets."""
    columns: tuple[str, ...] = ()
    """Of what it gives to the harness's sink, in order, each with its type; empty: not known, or it has a sink of its
    own."""

    @property
    def name(self) -> str:
        return str(self.subject["name"])

    @property
    def spark(self) -> str:
        """Its version."""
        return self.versions["pyspark"]

    @property
    def shape(self) -> OutputShape:
        return OutputShape.of(self.subject)


class UpgradeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`upgrade.json`."""

    version: int
    """Of the format: `VERSION`."""
    name: str
    began: str
    """UTC, ISO 8601."""
    old: SideRecord
    new: SideRecord
    basis: Basis
    workload: dict[str, Any]
    """Name, events and seed, and `again`: how many of the events repeat earlier ones, so that all state is touched."""
    batches: int
    """Of its input, the closing ones included."""
    last_counting: int
    """The last batch whose input counts, for a version that goes on."""
    last_changed: int
    """The last batch in which the change was made."""
    claims: tuple[SavedClaim, ...]
    seed: int
    minutes: float
    points: dict[Way, int]
    """Crash points that were planned."""
    switched: tuple[Switched, ...]
    not_tried: tuple[str, ...] = ()
    """Crash points that were not tried, each with the reason."""
    not_looked_at: tuple[str, ...] = ()
    """What no state shows, in sentences."""
    unjudgeable: str = ""
    """Why nothing can be judged."""
    same_table: bool | None = None
    """Whether both versions make the same of all input; None: not known."""
    differ_in: tuple[str, ...] = ()
    """What the two queries say differently of themselves."""
    durations: dict[str, float] = {}
    cut_short: str = ""
    """Why it did not come to its end: what was found by then is here."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Its runs."""
        return tuple(folder for one in self.switched for folder in _folders_of(one))

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(claim.as_guarantee() for claim in self.claims)

    @property
    def on_state(self) -> bool:
        """Whether one that continues has begun with what the other had committed, each way that was tried."""
        return bool(self.switched) and not self.ways_not_on_state

    @property
    def ways_not_on_state(self) -> tuple[Way, ...]:
        """In which states were tried, and none of them that continues has begun so."""
        on_state = {one.way for one in self.switched if one.takes_over}
        return tuple(way for way in Way if way not in on_state and any(one.way is way for one in self.switched))

    @property
    def exit_status(self) -> ExitStatus:
        status = exit_status_of(self.switched, self.unjudgeable, self.on_state)
        return ExitStatus.UNKNOWN if status is ExitStatus.HOLDS and (self.not_tried or self.cut_short) else status

    def before(self, one: Switched) -> SideRecord:
        return self.old if one.way is Way.UPGRADE else self.new

    def after(self, one: Switched) -> SideRecord:
        """The version that went on."""
        return self.new if one.way is Way.UPGRADE else self.old

    def sides(self, one: Switched) -> Sides:
        before, after = self.before(one).shape, self.after(one).shape
        counting = self._last_counting(one)
        return Sides(before, after, one.since, self.basis, counting, state_left=one.state_left)

    def sides_beside(self, one: Switched, aside: Aside) -> Sides:
        shape, counting = self.before(one).shape, self._last_counting(one)
        return sides_beside(one.way, shape, aside.since, self.basis, counting, state_left=one.state_left)

    def _last_counting(self, one: Switched) -> int:
        return self.last_changed if one.early else self.last_counting


def write_upgrade(folder: Path, record: UpgradeRecord) -> None:
    """Raises StorageFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot make {folder}: {error.strerror or error}") from error
    write_json(folder / UPGRADE_FILE, record)


def is_upgrade(folder: Path) -> bool:
    return (folder / UPGRADE_FILE).exists()


def read_upgrade(folder: Path) -> UpgradeRecord:
    """Raises InvalidHistory for what is none, DamagedHistory for what cannot be read, or does not say what it must, and
    UnknownHistoryVersion for one of another version."""
    file = folder / UPGRADE_FILE
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidHistory(f"{folder} holds no upgrade: {file} cannot be read ({error.strerror})") from error
    try:
        found = msgspec.json.decode(content)
        version = found.get("version") if isinstance(found, dict) else None
        if version != VERSION:
            raise UnknownHistoryVersion(f"{file} has version {version!r}; this streamproof reads version {VERSION}")
        record = msgspec.convert(found, UpgradeRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(file, str(error)) from error
    if why := next(_why_damaged(record), ""):
        raise _damaged(file, why)
    return record


def _damaged(file: Path, why: str) -> DamagedHistory:
    return DamagedHistory(f"{file} is damaged: {why}; get it again from where it came from")


def _why_damaged(record: UpgradeRecord) -> Iterator[str]:
    """What its types do not say."""
    for which, side in (("old", record.old), ("new", record.new)):
        yield from (f"of the {which} version, {why}" for why in _why_side_damaged(side))
    for claim in record.claims:
        try:
            claim.as_guarantee()
        except InvalidScenario as error:
            yield str(error)
    for one in record.switched:
        if not one.crashes:
            yield f"{one.folder} is the run of no crash (crashes=[])"
        for folder in _folders_of(one):
            place = PurePosixPath(folder)
            if place.parts[:1] != ("runs",) or len(place.parts) != 2 or ".." in place.parts or "\0" in folder:
                yield f"folder={folder!r} is none of its runs, as runs/upgrade-0001 is"


def _why_side_damaged(side: SideRecord) -> Iterator[str]:
    subject = side.subject
    wanted: dict[str, type] = {"name": str, "mode": str, "key": list, "reads": bool}
    for name, kind in wanted.items():
        if name not in subject:
            yield f"subject has no {name!r}"
        elif not isinstance(subject[name], kind):
            yield f"subject has {name}={subject[name]!r}"
    if subject.get("mode") not in list(OutputMode):
        yield f"subject has mode={subject.get('mode')!r}; there are: {', '.join(OutputMode)}"
    if any(not isinstance(column, str) for column in subject.get("key", ())):
        yield f"subject has key={subject['key']!r}"
    if not isinstance(subject.get("code", {}), dict):
        yield f"subject has code={subject['code']!r}"
    if "pyspark" not in side.versions:
        yield "versions has no 'pyspark'"


@dataclass(frozen=True)
class RejudgedUpgrade:
    """What the records of an upgrade come to."""

    record: UpgradeRecord
    """With the outcomes that its runs come to now."""
    differences: tuple[str, ...]
    """Where these are not what it says."""

    @property
    def exit_status(self) -> ExitStatus:
        return ExitStatus.USER_MISTAKE if self.differences else self.record.exit_status


def judge_upgrade(folder: Path, oracles: Mapping[str, Oracle]) -> RejudgedUpgrade:
    """Judge each of its runs again, those beside among them, without the code of either version. Raises what
    `read_upgrade` raises, and InvalidHistory for a run that cannot be judged."""
    record = read_upgrade(folder)
    again = _Again(folder, record, oracles)
    now = tuple(map(again.switched, record.switched))
    again.differences += _left_out(folder, record)
    return RejudgedUpgrade(msgspec.structs.replace(record, switched=now), tuple(again.differences))


def _left_out(folder: Path, record: UpgradeRecord) -> Iterator[str]:
    """Runs that are there, and of which the record does not speak."""
    told = set(record.folders)
    for run in sorted((folder / "runs").glob("*")):
        name = f"runs/{run.name}"
        if (run / "seal.json").exists() and name not in told:
            yield f"{name} is a run, and {UPGRADE_FILE} does not speak of it"


def _folders_of(one: Switched) -> list[str]:
    asides = (one.aside, None if one.aside is None else one.aside.without)
    return [one.folder, *(aside.folder for aside in asides if aside is not None)]


def judge_switched(
    folder: Path, sides: Sides, guarantees: Sequence[Guarantee], oracles: Mapping[str, Oracle], changed: Sequence[str]
) -> SwitchJudgement:
    """Of one run folder."""
    return judge_switch(read_history(folder), sides, guarantees, oracles, changed)


@dataclass
class _Again:
    """An upgrade that is judged again, run by run."""

    folder: Path
    record: UpgradeRecord
    oracles: Mapping[str, Oracle]
    differences: list[str] = field(default_factory=list)
    judged: dict[str, SwitchJudgement] = field(default_factory=dict)
    """Of each run beside: several states can have the word of one."""

    def switched(self, one: Switched) -> Switched:
        self._check_subject(one.folder, self.record.after(one))
        judged = self._judge(one.folder, self.record.sides(one), one.changed)
        if (judged.outcome, judged.committed) != (one.outcome, one.committed):
            self.differences.append(
                f"{one.folder}: {judged.outcome} from batch {judged.committed + 1} on by its record, and {one.outcome} "
                f"from batch {one.committed + 1} on in {UPGRADE_FILE}"
            )
        return with_judgement(one, judged, None if one.aside is None else self.aside(one, one.aside))

    def aside(self, one: Switched, aside: Aside) -> Aside:
        if aside.folder not in self.judged:
            self._check_subject(aside.folder, self.record.before(one))
            judged = self._judge(aside.folder, self.record.sides_beside(one, aside), aside.changed)
            self.judged[aside.folder] = judged
            if judged.outcome != aside.outcome:
                self.differences.append(
                    f"{aside.folder}: {judged.outcome} by its record, and {aside.outcome} in {UPGRADE_FILE}"
                )
        judged = self.judged[aside.folder]
        without = None if aside.without is None else self.aside(one, aside.without)
        return msgspec.structs.replace(aside, outcome=judged.outcome, why=judged.why, without=without)

    def _check_subject(self, folder: str, side: SideRecord) -> None:
        if read_description(self.folder / folder).subject != msgspec.json.decode(msgspec.json.encode(side.subject)):
            self.differences.append(f"{folder} is a run of another query")

    def _judge(self, folder: str, sides: Sides, changed: Sequence[str]) -> SwitchJudgement:
        return judge_switched(self.folder / folder, sides, self.record.guarantees, self.oracles, changed)


def with_judgement(one: Switched, judged: SwitchJudgement, aside: Aside | None) -> Switched:
    return msgspec.structs.replace(
        one,
        outcome=judged.outcome,
        why=judged.why,
        committed=judged.committed,
        rows=judged.rows,
        notes=judged.notes,
        own=judged.own,
        aside=aside,
    )
