"""The page for people, `certificate.md`, and the sentences that the screen shares with it.

It begins with the verdicts, a line, and then says what was covered and what was not, since they are worth no more than
that. However large the plan, it
stays a page: crashes are counted, not listed; `certificate.json` has them all.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ..core.addresses import Point, Side
from ..core.result_bounds import BOUNDED_ERROR_OF_RESULT
from ..core.verdicts import Anomaly, Status
from ..core.wording import amount_said, counted
from ..crash_points.inside_python.effects import NOT_WAITED_FOR
from ..judging.shapes import has_own_source
from .alike import RULE, Alike
from .conclusion import AT_THE_END, Covered, Planned, Uncut, tried_said
from .errors_left import errors_said
from .plan import IN_THE_OTHER_ORDER, How, Victim

if TYPE_CHECKING:
    from ..judging.statistics import Bound, KillSample
    from .certificate import Certificate, More, QueryCounterexample

KINDS: Final = ("first", "steady", "late-data", "eviction", "compaction", "after-restart", "last", "no-data")
"""In the order in which they are shown; any others come after."""
ROWS: Final = 40
"""Of the table of coverage. A larger one tells no side of a point from the other."""
LISTED: Final = 10
"""Of what a list could go on with for ever."""
NEVER_RUN: Final = (
    "Lines of the query's own code that no run without failures executed, nor a recovery that was watched: no crash "
    "was tried in them, and what they do was judged only where another recovery came to them: {lines}. Feed what "
    "leads there (--workload), or certify that part by itself."
)
LONG: Final = 600
"""Characters of what the query gave or was given."""


def page(certificate: Certificate) -> str:
    """The page, in Markdown."""
    sections = (
        _covered(certificate),
        _not_covered(certificate),
        _verdicts(certificate),
        _errors(certificate),
        _counterexample(certificate),
        _table(certificate),
        _sample(certificate),
        _circumstances(certificate),
    )
    lines = [line for section in sections for line in section]
    title = [f"# Certificate of {_text(subject_name(certificate))}", "", f"**{_text(in_short(certificate))}**", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*title, *lines]))


def in_short(certificate: Certificate) -> str:
    """The verdicts in one line."""
    return ", ".join(f"{verdict.claim} {verdict.status}" for verdict in certificate.verdicts) or "nothing was claimed"


def subject_name(certificate: Certificate) -> str:
    return str(certificate.subject.get("name") or certificate.name)


# What was covered, and what was not


def covered_said(certificate: Certificate) -> str:
    """`58 of 60 planned crashes passed or were seen to violate: 60 crash states, 22 real kills`."""
    known = sum(_known(line) for line in certificate.coverage)
    tried = tried_said(certificate.trials)
    total = len(certificate.coverage)
    return f"{known:,} of {total:,} planned crashes came to a verdict" + (f": {tried}" if tried else "")


def not_covered_said(certificate: Certificate) -> Iterator[str]:
    """What the verdicts do not speak of, a sentence each."""
    yield from _uncut_said(certificate.uncut)
    if certificate.never_run:
        rest = len(certificate.never_run) - LISTED
        more = f"; and lines of {counted(rest, 'more function')}" if rest > 0 else ""
        yield NEVER_RUN.format(lines="; ".join(certificate.never_run[:LISTED]) + more)
    if certificate.unjudgeable:
        yield f"Nothing can be judged: {certificate.unjudgeable}"
    missed: dict[str, list[str]] = {}
    for one in certificate.not_reached:
        missed.setdefault(one.why, []).append(str(one.planned))
    for why, crashes in _most(sorted(missed.items(), key=lambda entry: -len(entry[1]))):
        if not crashes:
            yield why
            continue
        more = f", and {len(crashes) - 1:,} more" if len(crashes) > 1 else ""
        yield f"Planned and not reached: {crashes[0]}{more} ({why})"
    lines = [line for line in certificate.coverage if not line.not_reached]
    untried = [line for line in lines if not line.states and not line.kills]
    spared = _spared(certificate, untried)
    found = "a violation was confirmed before" if certificate.counterexample is not None else ""
    why = certificate.exhausted or found
    because = f" ({why})" if why else ""
    for some, rule in (
        ([line for line in untried if line not in spared], ""),
        (spared, f". Others stand for it: {RULE}"),
    ):
        if some:
            more = f", and {len(some) - 1:,} more" if len(some) > 1 else ""
            yield f"Planned and not tried{because}: {some[0].planned}{more}{rule}"
    if certificate.more is not None:
        yield more_said(certificate.more, True)
    for part in certificate.parts:
        if part.left_out:
            more = f", and {len(part.left_out) - 1:,} more" if len(part.left_out) > 1 else ""
            yield f"Under way when the campaign was interrupted, and counted for nothing: {part.left_out[0]}{more}"
    unclear = [line for line in lines if (line.states or line.kills) and not _known(line)]
    if unclear:
        more = f", and {len(unclear) - 1:,} more" if len(unclear) > 1 else ""
        yield f"Tried, and without a verdict on every claim: {unclear[0].planned}{more}"
    yield from certificate.not_covered


def _spared(certificate: Certificate, untried: Sequence[Covered]) -> list[Covered]:
    """Those that leave no claim open, since others stand for them."""
    alike = Alike(certificate.plan)
    passed = {line.planned: line.passed for line in certificate.coverage}
    guarantees = [claim.as_guarantee() for claim in certificate.claims]
    return [
        line
        for line in untried
        if all(
            alike.is_spared(line.planned, lambda one, claim=str(claim): claim in passed.get(one, ()))  # type: ignore[misc]
            for claim in guarantees
            if claim.terms == line.planned.crash.terms
        )
    ]


def more_said(more: More, whole: bool = False) -> str:
    """What more time would buy; as a whole sentence, with what is left."""
    minutes = counted(more.minutes, "minute")
    if more.for_verdicts:
        minutes = f"{counted(more.for_verdicts, 'minute')}, or {more.minutes:,} for what others stand for, too,"
    how = f": {more.command}" if more.command else ""
    if not whole:
        return f"about {minutes} would do{how}" if more.for_verdicts else f"about {minutes} more would do{how}"
    left = [f"{more.untried:,} of {counted(more.planned, 'planned crash', 'planned crashes')}"] if more.untried else []
    left += [f"{counted(more.sample, 'kill')} of the random sample"] if more.sample else []
    return f"What more time would buy: {' and '.join(left)} are left, for which about {minutes} would do{how}"


_ADVICE: Final = {
    "file": "Keep it in the folders of the run, or accept it",
    "connection": "Say where the store is, by Store(..., address=...) and folders.reach(...), or accept it",
    "process": "Accept it where it leaves nothing outside of the run's folders",
    "tracing": "No line that comes after it is a crash point. Leave that alone while it is certified, or accept it",
}
"""By the kind of an effect."""


def _uncut_said(uncut: Sequence[Uncut]) -> Iterator[str]:
    for one in sorted(uncut, key=lambda one: one.accepted)[:LISTED]:
        where = f"the query's code does this in {one.place}, {counted(one.times, 'time')} in a run that was watched"
        if one.kind == "thread" and not one.accepted:
            yield (
                f"Cut by no crash: what {one.name} does later than it did here. It has begun in {one.place}, and was "
                f"still there when what Spark calls had returned, {counted(one.times, 'time')}: nobody has to have "
                f'waited for it. End it before that, or accept it: Query(..., accepts=("{one.name}",))'
            )
        elif one.kind == "process" and one.target.endswith(NOT_WAITED_FOR) and not one.accepted:
            yield (
                f"Cut by no crash: what {one.name} does later than it did here. It was started in {one.place}, and "
                f"nobody had waited for it when what Spark calls had returned, {counted(one.times, 'time')}. Wait for "
                f'it before that, or accept it: Query(..., accepts=("{one.name}",))'
            )
        elif one.kind == "message" and not one.accepted:
            yield (
                f"Cut by no crash: what becomes of {one.target} when it is sent later than it was here. It was sent, "
                f"or answered, when the sink had done its batch, {counted(one.times, 'time')}: nobody had waited for "
                "it, and a death takes it away though Spark has noted the batch. Wait for it within the batch (flush "
                f'the client there), or accept it: Query(..., accepts=("{one.name}",))'
            )
        elif one.place == AT_THE_END and not one.accepted:
            yield (
                f"Cut by no crash, and looked at by no run: what is done to {one.target} as the query's process ends, "
                f"{counted(one.times, 'time')}, after the sink was read: a death takes it away. Do it within the batch "
                f'(close or flush the file there), or accept it: Query(..., accepts=("{one.name}",))'
            )
        elif one.kind == "exit" and not one.accepted:
            yield (
                f"Cut by no crash, and looked at by no run: what {one.target} does when the process exits. It was left "
                f"to that in {one.place}, or to when nothing refers to its object any more, "
                f"{counted(one.times, 'time')}. Do it within the batch, or accept it: "
                f'Query(..., accepts=("{one.name}",))'
            )
        elif one.accepted:
            yield f"Accepted, and cut by no crash: {one.name}; {where}"
        else:
            yield f'Cut by no crash: {one.name}; {where}. {_ADVICE[one.kind]}: Query(..., accepts=("{one.name}",))'
    if len(uncut) > LISTED:
        yield f"{len(uncut) - LISTED:,} more effects of the query's code are cut by no crash"


def _most(entries: Sequence[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    yield from entries[:LISTED]
    rest = entries[LISTED:]
    if rest:
        yield f"{sum(len(crashes) for _, crashes in rest):,} more were not reached, for {len(rest):,} other reasons", []


def _known(line: Covered) -> bool:
    """Whether each claim has a verdict there."""
    return bool(line.verdicts) and all(
        claim in line.passed or Status.VIOLATED in found for claim, found in line.verdicts.items()
    )


def _covered(certificate: Certificate) -> Iterator[str]:
    yield "## Covered"
    yield ""
    yield f"- {covered_said(certificate)}"
    crashes = [line.planned.crash for line in certificate.coverage]
    if crashes:
        points = len({(crash.point, crash.side) for crash in crashes})
        victims = Counter(crash.victim for crash in crashes)
        died = ", ".join(f"{_VICTIMS[victim]} ({victims[victim]:,})" for victim in Victim if victims[victim])
        batches = counted(len({crash.batch for crash in crashes}), "batch", "batches")
        yield f"- planned at {counted(points, 'place')}, before or after crash points, in {batches}; to die: {died}"
    recovering = sum(crash.recovering for crash in crashes)
    if recovering:
        yield f"- {recovering:,} of them strike during the recovery from another"
    if certificate.batches:
        kinds = ", ".join(f"{kind} ({certificate.batches[kind]:,})" for kind in kinds_in_order(certificate.batches))
        yield f"- kinds of batch: {kinds}"
    yield from (f"- {text}" for text in continued_said(certificate))
    yield from (f"- {text}" for text in sample_said(certificate.draw, certificate.bounds))
    yield ""


def _not_covered(certificate: Certificate) -> Iterator[str]:
    yield "## Not covered"
    yield ""
    said = list(not_covered_said(certificate))
    yield from (f"- {_text(_cut(text))}" for text in said or ["Nothing that was planned"])
    yield ""


# What it comes to


def _verdicts(certificate: Certificate) -> Iterator[str]:
    yield "## Verdicts"
    yield ""
    for verdict in certificate.verdicts:
        said = f": {_text(_cut(verdict.summary))}" if verdict.summary else ""
        yield f"- **{_text(verdict.claim)}: {verdict.status}**{said}"
        yield from (f"  - {_text(_cut(reason))}" for reason in verdict.reasons)
        if verdict.shown_by:
            yield f"  - shown by [`{verdict.shown_by}`]({verdict.shown_by})"
    if not certificate.verdicts:
        yield "Nothing was claimed."
    yield ""


def errors_rows(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Of each claim that bounds an error: the claim, and what crashes left of it, the one that left most last."""
    for verdict in certificate.verdicts:
        if verdict.errors is not None:
            by = f": {verdict.errors.left_by}" if verdict.errors.left_by else ""
            yield verdict.claim, f"{errors_said(verdict.errors)}{by}"


def _errors(certificate: Certificate) -> Iterator[str]:
    known = [(verdict.claim, verdict.errors) for verdict in certificate.verdicts if verdict.errors is not None]
    if not known:
        return
    yield "## Errors that crashes left"
    yield ""
    yield (
        "How far the table in the end is from the one without failures, after one crash each: crash states and real "
        "kills. A recovery that stands for several crashes counts for each."
    )
    yield ""
    yield "| claim | at most | largest | median | crashes | without an error | in a row, altogether | not known |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for claim, left in known:
        several = f"{amount_said(left.after_several)} ({left.several:,} crashes)" if left.several else ""
        largest, middle = (left.largest_said, amount_said(left.median)) if left.crashes else ("", "")
        counts = f"{left.crashes:,} | {left.without:,} | {several} | {left.unmeasured:,}"
        yield f"| {_text(claim)} | {_text(left.measure)} | {_text(largest)} | {middle} | {counts} |"
    yield ""
    for claim, left in known:
        if left.left_by:
            where = f"[`{left.folder}`]({left.folder})"
            yield f"- {_text(claim)}: {_text(left.largest_said)} left by {where}: {_text(left.left_by)}"
    yield ""


def story(shown: QueryCounterexample) -> Iterator[str]:
    """What happened, from the input to the first wrong output, or to how it stays away, a sentence each."""
    if shown.input and shown.batch is not None:
        # What is wrong can be of an earlier batch, or a later one.
        yield f"The crash strikes at batch {shown.batch}, which takes {_cut(shown.input)}"
    for crash in shown.crashes:
        yield _capital(str(Planned(crash, shown.how is How.SPLIT_BRAIN)))
        yield _SPLIT_BRAIN if shown.how is How.SPLIT_BRAIN else _AFTERWARDS[crash.victim]
    if shown.anomaly in _AWAY and not shown.claim.startswith(BOUNDED_ERROR_OF_RESULT):
        yield f"It does not come back ({shown.anomaly}): {_cut(shown.wrong)}"
    else:
        yield f"What is wrong then, {_ANOMALIES.get(shown.anomaly, shown.anomaly)}: {_cut(shown.wrong)}"


_ANOMALIES: Final[Mapping[str, str]] = {
    Anomaly.LOST_INPUT: "an input that is missing (lost-input)",
    Anomaly.DUPLICATE_EFFECT: "an input that counts twice (duplicate-effect)",
    Anomaly.DUPLICATE_OUTPUT: "an output that came again (duplicate-output)",
    Anomaly.WRONG_VALUE: "a row with another value than without failures, by an input lost or counted twice "
    "(wrong-value)",
    Anomaly.PHANTOM_OUTPUT: "a row that no run without failures gives (phantom-output)",
    Anomaly.REORDERED_OUTPUT: "an output out of its order (reordered-output)",
    Anomaly.BOUND_EXCEEDED: "more than a crash may take (bound-exceeded)",
}
_AWAY: Final = frozenset({Anomaly.STALL, Anomaly.CRASH_LOOP, Anomaly.BOUND_EXCEEDED})
_SPLIT_BRAIN = "A second driver starts on the same checkpoint, and the first one wakes up"
_AFTERWARDS = {
    Victim.DRIVER: "A new driver goes on from the checkpoint",
    Victim.EXECUTOR: "Spark runs its tasks again",
    Victim.PYTHON: "Spark runs the task again",
    Victim.NODE: "What ran there is started again",
    Victim.ANSWER: "Who asked is told that the connection is broken, and not whether it was done",
    Victim.REQUEST: "Who asked is told that the connection is broken, and not that it was not done",
    Victim.DISK: "Who wanted it is told of an I/O error, and that operation alone is not done",
}


def shrunk_said(shown: QueryCounterexample) -> str:
    size, before = _size(len(shown.crashes), shown.events), _size(shown.crashes_before, shown.events_before)
    if shown.repeats_before:
        repeated = f"{shown.violated_before} of {counted(shown.repeats_before, 'repeat')} showed it, with {before}"
        return f"{repeated}; shrunk to {size}, which was run once"
    text = f"{shown.violated} of {counted(shown.repeats, 'repeat')} showed it, with {size}"
    return text if size == before else f"{text}, shrunk from {before}"


def _size(crashes: int, events: int) -> str:
    said = counted(crashes, "crash", "crashes")
    return f"{said} and {counted(events, 'event')}" if events else said


def _counterexample(certificate: Certificate) -> Iterator[str]:
    shown = certificate.counterexample
    if shown is None:
        return
    yield f"## How {_text(shown.claim)} is violated"
    yield ""
    for number, sentence in enumerate(story(shown), start=1):
        yield f"{number}. {_text(sentence)}"
    yield ""
    yield f"{shrunk_said(shown)}. This replays it:"
    yield ""
    yield "```sh"
    yield shown.command
    yield "```"
    yield ""


# The table


def _table(certificate: Certificate) -> Iterator[str]:
    if not certificate.coverage:
        return
    rows = _rows(certificate.coverage, row_of_map)
    if len(rows) > ROWS:
        rows = _rows(certificate.coverage, _coarse_row)
    kinds = kinds_in_order({kind for line in certificate.coverage for kind in line.planned.crash.kinds})
    yield "## Crash points, kinds of batch and victims"
    yield ""
    marks = _marks(certificate)
    yield "Crashes that passed, of those that were planned. A batch can be of several kinds, and is counted under each."
    for claim, mark in marks.items():
        yield f"{mark}: a trial violates {_text(claim)}."
    yield ""
    yield "| crash point | dies | " + " | ".join((*kinds, "all")) + " |"
    yield "| --- | --- |" + " ---: |" * (len(kinds) + 1)
    for (_, where, victim), lines in sorted(rows.items(), key=lambda entry: entry[0]):
        cells = [_cell([line for line in lines if kind in line.planned.crash.kinds], marks) for kind in kinds]
        yield f"| {where} | {victim} | " + " | ".join((*cells, _cell(lines, marks))) + " |"
    yield ""
    yield from _legend(certificate)


_Row = tuple[tuple[int, ...], str, str]
"""What the rows are sorted by, the place, and what dies."""
_POINTS = {point: place for place, point in enumerate(Point)}


def _rows(coverage: Iterable[Covered], row_of: Callable[[Planned], _Row]) -> dict[_Row, list[Covered]]:
    rows: dict[_Row, list[Covered]] = {}
    for line in coverage:
        rows.setdefault(row_of(line.planned), []).append(line)
    return rows


def row_of_map(planned: Planned) -> _Row:
    """The row of the table of crash points: how rows are ordered, where something dies, and what."""
    crash = planned.crash
    power = crash.lost is not None
    order = (
        _POINTS[crash.point],
        crash.side is Side.AFTER,
        crash.recovering,
        planned.split_brain,
        power,
        crash.last_first,
    )
    within = "" if crash.line is None else f" of `{crash.line.function}`"
    where = f"{crash.side} `{crash.point}`{within}"
    where += ", recovering" * crash.recovering + f", {IN_THE_OTHER_ORDER}" * crash.last_first
    return order, where, _dies(planned)


def _coarse_row(planned: Planned) -> _Row:
    return (_POINTS[planned.crash.point],), f"`{planned.crash.point}`", _dies(planned)


def _dies(planned: Planned) -> str:
    if planned.crash.lost is not None:
        return "everything, the power fails"
    return "driver, split brain" if planned.split_brain else _VICTIMS[planned.crash.victim]


_VICTIMS = {
    Victim.DRIVER: "driver",
    Victim.EXECUTOR: "executor",
    Victim.PYTHON: "Python worker",
    Victim.NODE: "node",
    Victim.ANSWER: "answer of a store",
    Victim.REQUEST: "request to a store",
    Victim.DISK: "operation on a file, refused",
}


def _marks(certificate: Certificate) -> dict[str, str]:
    """A cross for each claim that some trial violates; where there are several, numbered."""
    violated = [
        claim
        for claim in map(str, certificate.claims)
        if any(Status.VIOLATED in line.verdicts.get(claim, {}) for line in certificate.coverage)
    ]
    return {claim: "✗" if len(violated) == 1 else f"✗{number}" for number, claim in enumerate(violated, start=1)}


def _legend(certificate: Certificate) -> Iterator[str]:
    """What the names of the points mean, and their keys, of those that occur."""
    occurring = {line.planned.crash.point for line in certificate.coverage}
    for point in Point:
        if point in occurring and point in MEANINGS:
            yield f"- `{point}`: {MEANINGS[point]}"
    yield ""


MEANINGS: Final[Mapping[Point, str]] = {
    Point.SOURCE_LATEST: "Spark asks the source how far the next batch goes",
    Point.SOURCE_LOG: "a file source writes down which files a batch has",
    Point.OFFSET_LOG: "Spark writes down how far a batch goes (checkpoint `offsets/N`)",
    Point.CLEANUP: "Spark lets source and logs forget what is done",
    Point.SOURCE_COMMIT: "Spark tells the source that a batch's offsets are in the log",
    Point.ADD_BATCH: "Spark hands a batch to the sink; a foreachBatch function runs between before and after",
    Point.SOURCE_PARTITIONS: "Spark plans what the source gives in a batch",
    Point.SOURCE_READ: "a task reads from the source",
    Point.STATE_COMMIT: "a task makes its part of the state durable (`3/0/1/default`: batch, partition, step, store)",
    Point.WRITER_COMMIT: "a task's writer ends (`3/0`: batch 3, partition 0)",
    Point.TASK_COMMIT: "a file sink ends a task (`3/0`: batch 3, partition 0)",
    Point.TASK_END: "a task of a batch is over (`3/2/0`: batch 3, stage 2, partition 0)",
    Point.JOB_COMMIT: "a file sink ends the job of a batch",
    Point.SINK_LOG: "a file sink writes down which files a batch has",
    Point.STREAM_COMMIT: "Spark tells a data source's writer that all of a batch is written: its commit",
    Point.SINK_WRITE: "the recording sink of streamproof is given a batch",
    Point.COMMIT_LOG: "Spark writes down that a batch is done (checkpoint `commits/N`)",
    Point.RENAME: "a file of the checkpoint gets its name, and is there from then on",
    Point.USER: "a crash_point() or hook that the query's author has named",
    Point.LINE: "a line of the query's own code, or a call from it",
    Point.FILE: "an operation on a file in the run's folders",
    Point.MESSAGE: "a request to a store outside",
}
"""In the order in which a batch passes them; last those that lie wherever it does such a thing."""


def _cell(lines: Sequence[Covered], marks: Mapping[str, str]) -> str:
    if not lines:
        return ""
    passed = sum(bool(line.verdicts) and len(line.passed) == len(line.verdicts) for line in lines)
    crosses = [
        mark for claim, mark in marks.items() if any(Status.VIOLATED in line.verdicts.get(claim, {}) for line in lines)
    ]
    return " ".join((f"{passed:,}/{len(lines):,}", *crosses))


def kinds_in_order(present: Iterable[str]) -> list[str]:
    """Kinds of batch."""
    order = {kind: place for place, kind in enumerate(KINDS)}
    return sorted(present, key=lambda kind: (order.get(kind, len(order)), kind))


# The sample


def sample_said(draw: KillSample | None, bounds: Sequence[Bound]) -> Iterator[str]:
    """What the random sample says of each claim, a sentence each."""
    if draw is None:
        return
    drawn = f"{counted(draw.size, 'real kill')} drawn at random from {draw.population}"
    for bound in bounds:
        yield f"{bound.claim}, {drawn}: {_bounded(bound)}"


def _bounded(bound: Bound) -> str:
    if bound.upper is None or bound.lower is None:
        return f"no bound on how many of such kills violate, since {bound.why_none}"
    unclear = ""
    if bound.unknown:
        trials = "trial" if bound.unknown == 1 else "trials"
        unclear = f" (counting {bound.unknown:,} {trials} without a verdict as violations)"
    most = f"at most {percent(bound.upper, up=True)} of such kills violate{unclear}, with 95 % confidence"
    if not bound.violations:
        return f"no violation, so {most}"
    # Each side is right in 95 of 100 samples, which says less of both at once; so the one that matters stands alone.
    least = percent(bound.lower, up=False)
    violations = counted(bound.violations, "violation")
    return f"{violations}, so at least {least} of such kills violate, with 95 % confidence"


def percent(share: float, up: bool) -> str:
    """A share in percent: with one decimal, or with two digits where it is below a tenth of a percent; rounded to the
    safe side, up or down."""
    amount = share * 100
    decimals = 1 if amount >= 0.1 or not amount else min(6, 1 - math.floor(math.log10(amount)))
    scale = 10**decimals
    # What is a float's own inexactness is no reason to round further.
    rounded = math.ceil(amount * scale - 1e-9) if up else math.floor(amount * scale + 1e-9)
    return f"{rounded / scale:.{decimals}f} %"


def _sample(certificate: Certificate) -> Iterator[str]:
    draw = certificate.draw
    if draw is None:
        return
    yield "## The random sample"
    yield ""
    yield (
        f"Before its first kill, {draw.size:,} kills were drawn with seed {draw.seed}, with equal chances and with "
        f"replacement, from {_text(draw.population)} ({counted(len(draw.places), 'crash', 'crashes')}). Bounds are "
        "exact (Clopper-Pearson, one-sided). Crash states, and the kills that confirm or shrink, are not of the sample."
    )
    yield ""
    yield "| claim | finished | violations | without a verdict | at least | at most |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for bound in certificate.bounds:
        least = "" if bound.lower is None else percent(bound.lower, up=False)
        most = "" if bound.upper is None else percent(bound.upper, up=True)
        counts = f"{bound.finished:,} of {draw.size:,} | {bound.violations:,} | {bound.unknown:,}"
        yield f"| {_text(bound.claim)} | {counts} | {least} | {most} |"
    yield ""


# How it came about


def _circumstances(certificate: Certificate) -> Iterator[str]:
    yield "## How it was run"
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    facts: list[tuple[str, Any]] = [
        ("campaign", certificate.name),
        ("began", certificate.began),
        *((f"part {number}", _part(certificate, number)) for number in _numbers(certificate)),
        ("claims", ", ".join(map(str, certificate.claims)) or "nothing"),
        ("input", "from a source of its own" if has_own_source(certificate.subject) else _flat(certificate.workload)),
        ("seed", certificate.seed),
        ("cluster", _flat(certificate.cluster)),
        ("machine", _flat(certificate.machine)),
        ("versions", _flat(certificate.versions)),
        ("budget", _flat(certificate.budget) + (f"; {certificate.exhausted}" if certificate.exhausted else "")),
        ("took", ", ".join(f"{part} {seconds:,.1f} s" for part, seconds in certificate.durations.items())),
        *((name, f"{value:,.3g}" if value < 1000 else f"{value:,.0f}") for name, value in certificate.figures.items()),
    ]
    yield from (f"| {_text(name)} | {_text(_cut(str(said)))} |" for name, said in facts if said not in ("", None))
    yield ""
    yield from _titled("The query", certificate.subject)
    yield from _titled("Spark's configuration", certificate.settings)
    yield "`certificate.json` has all of this, every planned crash and every trial; `streamproof judge` on this folder"
    yield "verifies each file and judges every run again."
    yield ""


def _numbers(certificate: Certificate) -> range:
    """Of the parts of a campaign that was continued."""
    return range(1, len(certificate.parts) + 1) if len(certificate.parts) > 1 else range(0)


def _part(certificate: Certificate, number: int) -> str:
    part = certificate.parts[number - 1]
    after = certificate.parts[number].known if number < len(certificate.parts) else len(certificate.trials)
    text = f"began {part.began}, {counted(after - part.known, 'trial')}; budget {_flat(part.budget)}"
    text += f"; {_flat(part.versions)}; {_flat(part.machine)}"
    return f"{text}; interrupted" if part.interrupted else text


def continued_said(certificate: Certificate) -> Iterator[str]:
    """That it was, and what of it counts for nothing; a sentence each."""
    parts = certificate.parts
    if len(parts) > 1:
        trials = [after.known - part.known for part, after in pairwise(parts)]
        counts = ", ".join(f"{n:,}" for n in (*trials, len(certificate.trials) - parts[-1].known))
        versions = "; ".join(dict.fromkeys(_flat(part.versions) for part in parts))
        yield (
            f"continued: {len(parts)} parts, of {counts} trials, each with runs without failures of its own, which "
            f"agree; all with {versions}"
        )


def _titled(title: str, facts: Mapping[str, Any]) -> Iterator[str]:
    said = {name: _flat(value) if isinstance(value, Mapping) else _plain(value) for name, value in facts.items()}
    if not any(said.values()):
        return
    yield f"### {title}"
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    yield from (f"| {_text(name)} | {_text(_cut(value))} |" for name, value in said.items() if value)
    yield ""


def _flat(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in facts.items() if value not in (None, "", {}, []))


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_flat(value)})"
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)


# Text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:LONG]} … ({len(text) - LONG:,} more characters)"


_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def _text(text: str) -> str:
    """As it is to be read: nothing in it is Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
