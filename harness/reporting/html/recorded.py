"""What a run was judged to be when it was judged last, for where it cannot be judged again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...core.errors import DamagedHistory, InvalidScenario
from ...core.guarantees import Guarantee
from ...core.reasons import Reason, Why
from ...core.verdicts import Measured, Status, Tally, Verdict
from ...judging.collation import CollatedQuery
from ...judging.recovery import Recovery
from ...recording.claims_and_faults import SavedClaim
from ...recording.folder import Description
from ...recording.history import History
from ...running.judgement import Judgement


class _Kept(msgspec.Struct, frozen=True):
    """Of `verdicts.json`, what is shown of each verdict."""

    status: Status
    summary: str
    anomalies: tuple[Tally, ...]
    reason: str
    measured: tuple[Measured, ...] = ()


def as_recorded(description: Description, history: History, folder: Path) -> Judgement | None:
    """By `verdicts.json`; None where there is none. Nothing is executed. Raises DamagedHistory."""
    file = folder / "verdicts.json"
    try:
        found = msgspec.json.decode(file.read_bytes())
        return Judgement(
            _verdicts(description.claims, found["verdicts"]),
            _verdicts(description.breaks, found["expected_to_break"]),
            # As it was said then.
            tuple(Guarantee(str(name)) for name in found["strongest"]),
            tuple(msgspec.convert(one, Recovery) for one in found["recoveries"]),
            CollatedQuery(observables=(), inputs=0),
            history.digest(),
        )
    except OSError:
        return None
    except (msgspec.MsgspecError, InvalidScenario, KeyError, TypeError, ValueError) as error:
        raise DamagedHistory(f"{file} cannot be read: {error!r}") from error


def _verdicts(claims: Sequence[SavedClaim], kept: Sequence[Any]) -> tuple[Verdict, ...]:
    made = []
    for claim, document in zip(claims, kept, strict=True):
        one = msgspec.convert(document, _Kept)
        # The sentence is recorded, and a reason of this kind is nothing but its sentence.
        why = Reason(Why.UNJUDGEABLE, one.reason) if one.reason else None
        made.append(Verdict(claim.as_guarantee(), one.status, (), one.summary, one.anomalies, why, one.measured))
    return tuple(made)
