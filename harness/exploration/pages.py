"""The page of a counterexample: what goes wrong, and the diagram that shows how."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from ..core.errors import Unsupported
from ..core.wording import counted
from ..reporting.html.affected import harmed_inputs
from ..reporting.html.document import render
from ..reporting.html.run_page import VerdictOnPage, findings_on_page
from ..reporting.html.spacetime import spacetime
from ..reporting.html.spacetime_drawing import Drawing, drawing, drawing_svg
from ..worlds.simulated.looking_on import look_on
from ..worlds.simulated.seen_beside import SeenBeside
from .counterexample import ReplayedCounterexample, simulated
from .telling import view_of_replay

UNDRAWN: Final = "Nothing is drawn: this cannot be executed again, so that nothing says what was made of what."


def counterexample_html(replayed: ReplayedCounterexample, file: Path) -> str:
    """What came of running a counterexample again, as a page. Raises InvalidOperator as `spacetime` does."""
    view, found = view_of_replay(replayed), replayed.counterexample
    named = shlex.quote(str(file))
    return render(
        "counterexample.html.jinja",
        title=_title(replayed),
        view=view,
        claim=str(found.claim),
        verdicts=[VerdictOnPage(view.verdict, tuple(findings_on_page(replayed.verdict.anomalies, several=True)))],
        schedule=[(fault.what, fault.when) for fault in replayed.scenario.faults],
        found=f"Found at schedule {found.found.schedule:,} of a search, and shrunk from "
        f"{counted(found.found.faults, 'fault')} and {counted(found.found.events, 'event')} to "
        f"{counted(len(found.faults), 'fault')} and {counted(found.workload.events, 'event')}.",
        drawing=counterexample_drawing(replayed),
        undrawn=UNDRAWN,
        commands=(
            ("run it again", f"streamproof replay {named}"),
            ("draw it again", f"streamproof report {named}"),
        ),
    )


def counterexample_svg(replayed: ReplayedCounterexample, file: Path) -> str:
    """The diagram by itself. Raises Unsupported where there is none."""
    drawn = counterexample_drawing(replayed)
    if drawn is None:
        raise Unsupported(f"{file} has no diagram: what it breaks cannot be executed again")
    return drawing_svg(drawn, _title(replayed))


def _title(replayed: ReplayedCounterexample) -> str:
    found = replayed.counterexample
    subject = replayed.scenario.subject
    return f"{subject.name} under {subject.kind} breaks {found.claim}: {found.anomaly}"


def counterexample_drawing(replayed: ReplayedCounterexample) -> Drawing | None:
    """None: it cannot be executed again, so that nothing says what was made of what."""
    collation = replayed.judgement.collation
    rerun, wanted = collation.reexecution, collation.wanted
    if rerun is None or wanted is None:
        return None
    anomaly = replayed.counterexample.anomaly if replayed.reproduced else ""
    beside = _seen_beside(replayed)
    return drawing(spacetime(replayed.history, rerun, beside=beside), harmed_inputs(rerun, wanted, anomaly))


def _seen_beside(replayed: ReplayedCounterexample) -> SeenBeside | None:
    """Nobody can look on at a run on a real cluster once more."""
    found = replayed.counterexample
    if replayed.folder is not None:
        return None
    return look_on(simulated(found), replayed.scenario, found.seed, replayed.kinds, replayed.history)
