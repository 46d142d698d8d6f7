"""What is shown of a certificate, and of a schedule that a campaign has saved and that was run again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..core.wording import counted
from ..reporting.runs import input_said, place, shown
from ..reporting.view import (
    TONES,
    CertificateView,
    Fact,
    Head,
    RejudgedView,
    SavedView,
    ShownFinding,
    ShownVerdict,
    StoryView,
)
from .certificate import LOOK, PAGE, Certificate
from .page import (
    continued_said,
    covered_said,
    errors_rows,
    in_short,
    not_covered_said,
    sample_said,
    shrunk_said,
    story,
    subject_name,
)
from .rejudging import JudgedRun, Rejudged


def view_of_certificate(certificate: Certificate, folder: Path) -> CertificateView:
    """What it says."""
    violation = certificate.counterexample
    return CertificateView(
        head=Head(
            f"{subject_name(certificate)}, a Structured Streaming query",
            f"{place(certificate.cluster)} · {input_said(certificate.subject, certificate.workload)} · "
            f"seed {certificate.seed}",
        ),
        in_short=in_short(certificate),
        covered=(covered_said(certificate), *continued_said(certificate)),
        not_covered=tuple(not_covered_said(certificate)),
        sample=tuple(sample_said(certificate.draw, certificate.bounds)),
        errors=tuple(f"{claim}, {said}" for claim, said in errors_rows(certificate)),
        verdicts=tuple(
            ShownVerdict(
                verdict.claim,
                verdict.status,
                TONES[verdict.status],
                verdict.summary,
                tuple(map(ShownFinding, verdict.reasons)),
            )
            for verdict in certificate.verdicts
        ),
        story=None
        if violation is None
        else StoryView(
            f"how {violation.claim} is violated: {shrunk_said(violation)}",
            tuple(story(violation)),
            violation.command,
        ),
        more="" if certificate.more is None else certificate.more.command,
        folder=folder,
        # Of one that was written by a streamproof that drew none, the other.
        page=LOOK if (folder / LOOK).exists() else PAGE,
    )


def view_of_rejudged(judged: Rejudged, folder: Path) -> RejudgedView:
    """What its records come to, and where it does not say so."""
    found = judged.conclusion
    now = msgspec.structs.replace(
        judged.certificate, verdicts=found.verdicts, coverage=found.coverage, bounds=found.bounds
    )
    files, trials = counted(len(now.files), "file"), counted(len(now.trials), "trial")
    return RejudgedView(
        view_of_certificate(now, folder),
        f"{files} as written, and {trials} judged again with the same verdicts",
        tuple(judged.differences),
    )


def view_of_saved(judged: JudgedRun, folder: Path) -> SavedView:
    """Its faults and its verdicts; nothing was expected to break."""
    return SavedView(
        tuple(Fact("fault", str(fault)) for fault in judged.description.schedule),
        tuple(map(shown, judged.verdicts)),
        folder,
    )
