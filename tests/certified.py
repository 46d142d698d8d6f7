"""Certificates made by hand: run folders with histories of a few batches, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamproof.harness.certifying.certificate import (
    VERSION,
    Certificate,
    QueryCounterexample,
    with_conclusion,
    write_certificate,
)
from streamproof.harness.certifying.conclusion import NotReached, Planned
from streamproof.harness.certifying.plan import CRASH_STATES, IN_THE_OTHER_ORDER, ORDER, Crash, CrashTrial, How, Victim
from streamproof.harness.certifying.rejudging import first_wrong, judge_run
from streamproof.harness.contracts.query import KIND
from streamproof.harness.core.addresses import Address, Point, Side
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import Guarantee, exactly_once, exactly_once_output
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.references import DRIVER, REFERENCES, SINK, row_number
from streamproof.harness.judging.statistics import KillSample
from streamproof.harness.recording import folder as run_folder
from streamproof.harness.recording.claims_and_faults import SavedClaim, SavedFault
from streamproof.harness.recording.folder import Description, RunFolder
from streamproof.harness.recording.history import Bite, Drained, FaultStruck, Proof, Stamp
from streamproof.harness.recording.records import Delivered, Ended, Offered
from streamproof.oracles import ORACLES

JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}
CLAIMS: tuple[Guarantee, ...] = (exactly_once(), exactly_once_output())
ONCE = "exactly-once"
ONCE_OUTPUT = "exactly-once-output"
SUBJECT: dict[str, Any] = {
    "name": "word-count",
    "kind": KIND,
    "mode": "update",
    "key": ["word"],
    "reads": False,
    "batch_events": 3,
}
Batch = tuple[int, Mapping[str, int]]
BATCHES: tuple[Batch, ...] = ((0, {"a": 1, "b": 1}), (1, {"a": 2, "c": 1}), (2, {"b": 2, "c": 2}))
AGAIN: tuple[Batch, ...] = (*BATCHES, BATCHES[2])
"""The last batch is delivered again."""


def crash_at(batch: int = 2, **changes: Any) -> Crash:
    """Of the driver, before it writes down that a batch is done."""
    facts: dict[str, Any] = {
        "point": Point.COMMIT_LOG,
        "side": Side.BEFORE,
        "key": str(batch),
        "actor": "driver",
        "victim": Victim.DRIVER,
        "batch": batch,
        "kinds": ("first",) if batch == 0 else ("steady", "last") if batch == 2 else ("steady",),
    }
    return Crash(**{**facts, **changes})


def trial(
    *crashes: Crash,
    how: How = How.KILL,
    name: str = "one",
    sampled: bool = False,
    reason: str = "",
    **statuses: Status,
) -> CrashTrial:
    """`exactly_once_output=Status.VIOLATED`; what is not said holds."""
    verdicts = {claim: statuses.get(claim.replace("-", "_"), Status.HOLDS) for claim in (ONCE, ONCE_OUTPUT)}
    return CrashTrial(crashes or (crash_at(),), how, f"runs/{name}", verdicts, reason, sampled)


def write_run(
    folder: Path,
    *crashes: Crash,
    judged: Sequence[Batch] = BATCHES,
    other: Sequence[Batch] = BATCHES,
    subject: Mapping[str, Any] = SUBJECT,
    how: How = How.KILL,
) -> None:
    """A run whose crashes strike one after the other, before its last delivery; `other` is what the second reference
    run gave."""
    kind = "split-brain" if how is How.SPLIT_BRAIN else "crash"
    schedule = tuple(SavedFault(kind, (DRIVER,), after=1) for _ in crashes)
    description = Description(
        version=run_folder.VERSION,
        run=folder.name,
        scenario="word-count",
        origin="my_queries:word_count",
        subject=dict(subject),
        workload={"name": "words", "events": 6},
        seed=7,
        schedule=schedule,
        claims=(),
        breaks=(),
        cluster={
            "cluster": "embedded",
            **({"how": CRASH_STATES} if how is How.CRASH_STATE else {}),
            **({ORDER: IN_THE_OTHER_ORDER} if any(crash.last_first for crash in crashes) else {}),
        },
        versions={},
        machine={},
        began="2026-01-01T00:00:00.000+00:00",
    )
    with RunFolder(folder, description) as recorder:
        recorder.note(0, Offered("source", [Event("source", n, str(n), "a b", n) for n in range(1, 7)]))
        for sink, batches in zip(REFERENCES, (BATCHES, other), strict=True):
            for batch in batches:
                recorder.note(0, _delivered(sink, batch, 1))
            recorder.note(0, Ended(sink, 1, {"source": [1]}))
        for number, batch in enumerate(judged):
            last = number == len(judged) - 1
            if last:
                for place, crash in enumerate(crashes):
                    recorder.log(_struck(place, crash))
            recorder.note(100 + number, _delivered(SINK, batch, 1 + len(crashes) if last else 1))
        recorder.log(Drained(Stamp(1000)))
        recorder.seal()


def _delivered(sink: str, batch: Batch, incarnation: int) -> Delivered:
    number, rows = batch
    events = [Event("word-count", row_number(number, n), key, rows[key], 0) for n, key in enumerate(sorted(rows))]
    return Delivered(sink, "word-count", incarnation, 0, events)


def _struck(place: int, crash: Crash) -> FaultStruck:
    address = str(Address(crash.actor, place + 1, crash.point, crash.key, crash.side))
    if crash.lost is None:
        return FaultStruck(
            Stamp(90 + place), place, "kill driver", address, Bite(DRIVER, DRIVER, (DRIVER,), True, True)
        )
    bite = Bite(DRIVER, DRIVER, (DRIVER,), True, proof=Proof(3, "files put back"))
    return FaultStruck(Stamp(90 + place), place, "power-loss driver", address, bite, crash.lost)


def unsealed(**changes: Any) -> Certificate:
    """What a campaign hands over to be written, its conclusion drawn."""
    facts: dict[str, Any] = {
        "version": VERSION,
        "seal": "",
        "name": "2026-01-01T00-00-00-word-count",
        "began": "2026-01-01T00:00:00.000+00:00",
        "subject": SUBJECT,
        "workload": {"name": "words", "events": 6},
        "claims": tuple(map(SavedClaim.of, CLAIMS)),
        "seed": 7,
        "cluster": {"cluster": "embedded", "workers": 1},
        "settings": {"spark.sql.shuffle.partitions": "2"},
        "versions": {"streamproof": "0.1.0", "pyspark": "4.3.0"},
        "machine": {"system": "Linux", "cores": 2},
        "budget": {"minutes": 5, "kills": 2},
        "exhausted": "",
        "not_covered": ("The loss of files that were not synced.",),
        "batches": {"first": 1, "steady": 2, "last": 1},
        "plan": (Planned(crash_at(2)),),
        "not_reached": (),
        "trials": (trial(crash_at(2)),),
        "unjudgeable": "",
        "draw": None,
        "verdicts": (),
        "coverage": (),
        "bounds": (),
        "counterexample": None,
        "durations": {"total": 61.5},
        "figures": {"crash states a minute": 35.2},
        "files": {},
    }
    return with_conclusion(Certificate(**{**facts, **changes}))


def certify_by_hand(
    folder: Path,
    runs: Mapping[str, tuple[Crash, How, Sequence[Batch]]],
    *,
    not_reached: tuple[NotReached, ...] = (),
    **changes: Any,
) -> Certificate:
    """Write the runs, judge them, and certify what they come to, with a counterexample where one violates. Those whose
    name begins with `sampled` are the random sample."""
    trials = []
    shown: QueryCounterexample | None = None
    for name, (crash, how, judged) in runs.items():
        write_run(folder / "runs" / name, crash, judged=judged, how=how)
        found = judge_run(folder / "runs" / name, (crash,), CLAIMS, JUDGES)
        sampled = name.startswith("sampled")
        one = CrashTrial((crash,), how, f"runs/{name}", found.statuses, found.reason, sampled, found.digest)
        trials.append(one)
        wrong = next((v for v in found.verdicts if v.status is Status.VIOLATED), None)
        if wrong is not None and how is not How.CRASH_STATE and shown is None:
            first = first_wrong(wrong)
            assert first is not None
            shown = QueryCounterexample(
                claim=str(wrong.guarantee),
                crashes=(crash,),
                how=how,
                events=6,
                batch_events=3,
                anomaly=first[0].anomaly,
                wrong=first[1].what,
                input="(source, 5) = 'a b'",
                batch=2,
                folder=one.folder,
                violated=1,
                repeats=1,
                command="streamproof replay counterexample.json",
                crashes_before=2,
                events_before=600,
            )
    plan = tuple(dict.fromkeys(Planned(one.crashes[0], one.how is How.SPLIT_BRAIN) for one in trials))
    size = sum(one.sampled for one in trials)
    draw = KillSample.of("the one crash", (0,), size, 7) if size else None
    facts = {"plan": plan, "trials": tuple(trials), "counterexample": shown, "draw": draw, "not_reached": not_reached}
    return write_certificate(folder, unsealed(**{**facts, **changes}))
