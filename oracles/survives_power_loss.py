"""Survives power loss: what is claimed holds also where the power fails, and what was not synced is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..harness.core.guarantees import SURVIVES_POWER_LOSS, Guarantee
from ..harness.core.reasons import Reason, Why
from ..harness.core.verdicts import Verdict, unknown
from ..harness.judging.oracle import Case, Oracle

NO_LOSS = "no power was lost in this run: it is judged by those of a certificate in which it is"


def oracle_of(others: Sequence[Oracle]) -> Oracle:
    """Which judges by the oracle of what is claimed, one of these."""
    known = {oracle.guarantee: oracle for oracle in others}

    def judge(case: Case, guarantee: Guarantee) -> Verdict:
        """What the claim names, exactly-once where it names nothing, holds of a run in which the power failed: every
        process ended at one moment, and of what they had written, the disk had what the file system promises to keep,
        by the terms that the claim states (`harness.crash_points.files.power` says what each promise is,
        and by whom). What was delivered outside by then stays delivered. UNKNOWN of a run in which no power was lost.
        """
        assert guarantee.power is not None
        inner = guarantee.power.of
        if inner.name not in known:
            reason = Reason(Why.UNSTATED, f"nothing here judges {inner.name} after a loss of power")
            return unknown(guarantee, case.collation.observables, reason)
        if not any(entry.lost is not None for entry in case.history.struck()):
            return unknown(guarantee, case.collation.observables, Reason(Why.NOTHING_TO_JUDGE, NO_LOSS))
        return replace(known[inner.name].judge(case, inner), guarantee=guarantee)

    anomalies = tuple(dict.fromkeys(anomaly for oracle in others for anomaly in oracle.anomalies))
    return Oracle(SURVIVES_POWER_LOSS, judge, anomalies=anomalies)
