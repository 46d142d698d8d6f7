"""What is printed of a certificate: when it has been written, and when it was judged again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from ..certifying.certificate import PAGE, Certificate
from ..certifying.conclusion import counted
from ..certifying.page import (
    continued_said,
    covered_said,
    in_short,
    not_covered_said,
    sample_said,
    shrunk_said,
    story,
    subject_name,
)
from ..certifying.rejudging import Rejudged
from .screen import STYLES, place

SENTENCES: Final = 6
"""Of a list that could go on; the page has more, and the JSON all."""


def end_of_campaign(certificate: Certificate, folder: Path) -> Iterator[Text]:
    """What a certificate says, in a screen."""
    yield from _summary(certificate)
    if certificate.more is not None and certificate.more.command:
        yield Text.assemble("  ", ("more time: ", "dim"), certificate.more.command)
    yield Text.assemble(
        "  certificate ",
        str(folder / PAGE),
        ("     judge it again: ", "dim"),
        f"streamproof judge {shlex.quote(str(folder))}",
    )


def judged_again(judged: Rejudged, folder: Path) -> Iterator[Text]:
    """What the records of a certificate come to, and where it does not say so."""
    found = judged.conclusion
    now = msgspec.structs.replace(
        judged.certificate, verdicts=found.verdicts, coverage=found.coverage, bounds=found.bounds
    )
    yield from _summary(now)
    if not judged.differences:
        files, trials = counted(len(now.files), "file"), counted(len(now.trials), "trial")
        yield Text(f"  {folder}: {files} as written, and {trials} judged again with the same verdicts")
        return
    yield Text(f"  {folder} does not say what its records come to:", "bold red")
    yield from (Text(f"      {difference}") for difference in _most(judged.differences))


def document(judged: Rejudged, folder: Path) -> dict[str, Any]:
    """The same, for programs."""
    certificate = judged.certificate
    return {
        "folder": str(folder),
        "certificate": certificate.name,
        "subject": certificate.subject.get("name"),
        "seed": certificate.seed,
        "verdicts": msgspec.to_builtins(judged.conclusion.verdicts),
        "bounds": msgspec.to_builtins(judged.conclusion.bounds),
        "planned": len(judged.conclusion.coverage),
        "trials": len(certificate.trials),
        "files": len(certificate.files),
        "counterexample": msgspec.to_builtins(certificate.counterexample),
        "differences": list(judged.differences),
        "exit_status": int(judged.exit_status),
    }


def _summary(certificate: Certificate) -> Iterator[Text]:
    workload = certificate.workload
    yield Text.assemble(
        (f"{subject_name(certificate)}, a Structured Streaming query", "bold"),
        f"     {place(certificate.cluster)} · {workload.get('events', 0):,} events of {workload.get('name')} · "
        f"seed {certificate.seed}",
    )
    yield Text(f"  {in_short(certificate)}", "bold")
    yield Text()
    yield _row("covered", covered_said(certificate))
    yield from (_row("", sentence) for sentence in continued_said(certificate))
    yield from (_row("not covered", sentence) for sentence in _most(list(not_covered_said(certificate))))
    yield from (_row("sample", sentence) for sentence in sample_said(certificate.draw, certificate.bounds))
    yield Text()
    width = max((len(verdict.claim) for verdict in certificate.verdicts), default=0)
    for verdict in certificate.verdicts:
        status = (f"{verdict.status:<8}", STYLES[verdict.status])
        line = Text.assemble(f"  {verdict.claim:<{width}}   ", status, f"   {verdict.summary}")
        line.rstrip()
        yield line
        yield from (Text(f"      {reason}") for reason in _most(verdict.reasons))
    yield Text()
    shown = certificate.counterexample
    if shown is not None:
        yield Text(f"  how {shown.claim} is violated: {shrunk_said(shown)}")
        yield Text()
        for number, sentence in enumerate(story(shown), start=1):
            yield Text(f"  {number:>3}  {sentence}")
        yield Text()
        yield Text.assemble("  ", ("replay it: ", "dim"), shown.command)
        yield Text()


def _row(label: str, text: str) -> Text:
    return Text(f"  {label:<13}{text}")


def _most(sentences: Sequence[str]) -> Iterator[str]:
    yield from sentences[:SENTENCES]
    if len(sentences) > SENTENCES:
        yield f"and {len(sentences) - SENTENCES:,} more"
