"""All that a subject makes of a history, to be compared with what another makes of it."""

from __future__ import annotations

from typing import Any

from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.judging.reruns import Cut, Rerun
from streamproof.harness.recording.history import History
from told_by import told_by


def told_in_full(subject: SchemeSubject, history: History) -> dict[str, Any]:
    """All that a collation tells, and each incarnation that was executed again."""
    collation = subject.collate(history)
    reexecution = collation.reexecution
    assert reexecution is not None
    found = {name: one for name, one in told_by(collation).items() if name not in ("reexecution", "wanted")}
    executed = {
        f"{slice_id}#{number}": _rerun(one)
        for slice_id, reruns in reexecution.reruns.items()
        for number, one in reruns.items()
    }
    visible = {
        f"{slice_id}#{number}": reexecution.visible(one)
        for slice_id, reruns in reexecution.reruns.items()
        for number, one in reruns.items()
    }
    return found | {"executed": executed, "visible": visible}


def _rerun(one: Rerun) -> dict[str, Any]:
    return {
        "replica": one.replica,
        "next_seq": one.next_seq,
        "state": one.state,
        "took": list(one.took),
        "seqs": list(one.seqs),
        "batches": one.batches,
        "lineage": list(one.lineage()),
        "closings": one.closings(),
        "cuts": {number: _cut(cut) for number, cut in one.cuts.items()},
        "stretches": [
            (
                None if stretch.cut is None else _cut(stretch.cut),
                stretch.begins,
                stretch.first_seq,
                {to: (list(made.events), list(made.derivations)) for to, made in stretch.emitted.items()},
                stretch.closings,
            )
            for stretch in one.stretches
        ],
    }


def _cut(cut: Cut) -> tuple[object, ...]:
    return cut.rerun.number, cut.position, cut.next_seq, dict(cut.emitted), cut.closings
