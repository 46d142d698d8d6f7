"""What a search has come to, as one document: `explore --json` prints it, and its page is made of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from ..contracts.scaling import scaled_down
from ..core.verdicts import Status
from ..judging.exercised import Activity
from ..recording.claims_and_faults import SavedFault
from .exhausting import not_covered, statements
from .exploring import Explored
from .largest_errors import LargestErrors
from .plans import DRAWN
from .power import SearchPower
from .search_document import FORMAT, VERSION
from .telling import view_of_search


def document_of(explored: Explored) -> dict[str, Any]:
    """What `explore --json` prints, and the page of a search is made of."""
    findings, view = explored.findings, view_of_search(explored)
    return {
        "format": FORMAT,
        "version": VERSION,
        "head": asdict(view.head),
        "said": [asdict(fact) for fact in view.facts],
        "course": msgspec.to_builtins(findings.course.points(findings)),
        "drawn": DRAWN if findings.random_held + findings.random_violated + findings.random_unknown else None,
        "scenario": explored.named.name,
        "origin": explored.named.origin,
        "seed": explored.bench.seed,
        "events": explored.scenario.workload.events,
        "scaled": None if explored.own is None else list(scaled_down(explored.own, explored.scenario)),
        "as_stated": None if explored.stated is None else str(explored.stated),
        "claims": [str(guarantee) for guarantee in explored.bench.claims],
        "not_judged": [str(guarantee) for guarantee in explored.bench.not_judged],
        "schedules": findings.tried,
        "exhausted": findings.exhausted,
        "interrupted": explored.interrupted,
        "seconds": round(findings.seconds, 3),
        "jobs": findings.jobs,
        "spark_master": findings.master or None,
        "lost": {"schedules": findings.lost, "workers": dict(findings.losses.most_common())},
        "cut_short": findings.cut_short or None,
        "verdicts": {str(status): findings.statuses[status] for status in Status},
        "violated": [
            {"guarantee": kind.guarantee, "anomaly": kind.anomaly, "schedules": count}
            for kind, count in findings.kinds.most_common()
        ],
        "judged_plainly": findings.judged,
        "power": _power_document(explored.power),
        "exercised": {str(mechanism): findings.exercised[mechanism] for mechanism in Activity},
        "untried": [str(mechanism) for mechanism in explored.untried],
        "bitten": dict(sorted(findings.bitten.items())),
        "unbitten": list(explored.unbitten),
        "unasked": [str(mechanism) for mechanism in explored.unasked],
        "unknown": dict(findings.reasons.most_common()),
        "largest_error": None if explored.errors is None else _errors_document(explored.errors),
        "addresses": {"exist": len(findings.addresses), "struck": findings.covered, "beyond": findings.beyond},
        "pairs": None
        if findings.pairs is None
        else {"tried": findings.pairs.tried, "exist": findings.pairs.exist, "exact": findings.pairs.exact},
        "alike": {address: list(others) for address, others in findings.alike.items()},
        "corpus": None if explored.corpus is None else asdict(explored.corpus),
        "whole_runs": findings.whole_runs or None,
        "not_looked_at": explored.bench.not_looked_at or None,
        "idle": list(explored.bench.idle),
        "exhausted_levels": [asdict(one) for one in statements(explored.bench, findings)] if explored.exhaust else None,
        "not_covered": list(not_covered(explored.bench.seed)) if explored.exhaust else None,
        "random": {
            "held": findings.random_held,
            "violated": findings.random_violated,
            "unknown": findings.random_unknown,
            "at_most": findings.bound,
            "confidence": 0.95,
        },
        "counterexamples": [
            {
                "file": None if kept.unkept else str(kept.file),
                "unkept": kept.unkept or None,
                "runs": kept.shrunk.runs,
                **msgspec.to_builtins(kept.content),
            }
            for kept in explored.kept
        ],
        "exit_status": None if explored.exit_status is None else int(explored.exit_status),
        **({"goes_on": True} if explored.goes_on else {}),
    }


def _power_document(power: SearchPower | str) -> dict[str, Any]:
    if isinstance(power, str):
        return {"not_measured": power}
    measured = power.measured
    return {
        "found": power.found,
        "changes": power.tried,
        "places": measured.places,
        "by": {str(how): count for how, count in power.by.items()},
        "without_failure": power.calm,
        "schedules": power.schedules,
        "scenario": measured.scenario,
        "events": measured.events,
        "seed": measured.seed,
        "day": measured.day,
        "version": measured.version,
    }


def _errors_document(found: LargestErrors) -> dict[str, Any]:
    """The schedule is that of the first of the amounts."""
    return {
        "ratio": found.ratio if found.calls else None,
        "schedules": found.tried,
        "failed": None if found.failed is None else str(found.failed),
        "faults": [str(fault) for fault in found.schedule],
        "saved_faults": [msgspec.to_builtins(SavedFault.of(fault)) for fault in found.schedule],
        "seed": found.calls[0].trial.seed if found.calls else None,
        "events": found.bench.scenario.workload.events,
        "batch": found.bench.scenario.workload.batch,
        "amounts": [
            {
                "guarantee": str(call.guarantee),
                **msgspec.to_builtins(call.measured),
                "ratio": call.measured.ratio,
                "faults": [str(fault) for fault in call.trial.schedule],
            }
            for call in found.calls
        ],
    }
