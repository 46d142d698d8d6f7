"""The screen: a view in lines of text, coloured where a terminal shows them. Nothing here decides anything, or prints.

Of what could go on, it has the first few; the JSON has all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.text import Text

from .view import (
    CertificateView,
    Fact,
    FoundView,
    Head,
    RejudgedView,
    ReplayView,
    RunView,
    SavedView,
    SearchView,
    ShownVerdict,
    StoryView,
    Tone,
)

EVIDENCE: Final = 3
"""Lines of evidence for each finding."""
SENTENCES: Final = 6
"""Of a list that could go on."""
_VERDICTS: Final = {Tone.PLAIN: "", Tone.GOOD: "bold green", Tone.BAD: "bold red", Tone.OPEN: "bold yellow"}
_FACTS: Final = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "red", Tone.OPEN: "yellow"}
_LABEL: Final = 11
"""Characters, at least, from where a label begins to where what is said of it does."""
_WIDE_LABEL: Final = 13
"""The same, in a certificate."""


# What a screen is made of


def head_line(head: Head) -> Text:
    return Text.assemble((head.subject, "bold"), f"     {head.circumstances}")


def fact_lines(facts: Sequence[Fact], width: int = _LABEL) -> Iterator[Text]:
    """In two columns, of which the first is so wide, or as its longest label needs it to be."""
    width = max([width, *(len(fact.label) + 1 for fact in facts)])
    for fact in facts:
        text = fact.text.replace("\n", f"\n  {'':<{width}}")
        yield Text.assemble(f"  {fact.label:<{width}}", (text, _FACTS[fact.tone]))


def verdict_lines(verdicts: Sequence[ShownVerdict], most: int | None = None) -> Iterator[Text]:
    """Each with what it rests on, of which at most so much, and a gap."""
    width = max((len(verdict.claim) for verdict in verdicts), default=0)
    for verdict in verdicts:
        status = (f"{verdict.status:<8}", _VERDICTS[verdict.tone])
        line = Text.assemble(f"  {verdict.claim:<{width}}   ", status, f"   {verdict.summary}")
        line.rstrip()
        yield line
        yield from (Text(f"      {amount}") for amount in verdict.measured)
        for finding in verdict.findings[:most]:
            yield Text(f"      {finding.text}")
            yield from (Text(f"          {piece}") for piece in finding.evidence[:EVIDENCE])
        if most is not None and len(verdict.findings) > most:
            yield Text(f"      and {len(verdict.findings) - most:,} more")
    yield Text()


def folder_line(folder: Path) -> Text:
    """Where a run is, and what can be done with it."""
    return Text.assemble(
        "  run ", str(folder), ("     judge it again: ", "dim"), f"streamproof judge {shlex.quote(str(folder))}"
    )


def report_line(page: Path) -> Text:
    """Where a page is that can be looked at."""
    return Text(f"  report {page}")


def again_line(compared: Fact) -> Text:
    """How a run that was replayed compares with its record."""
    return Text(f"  {compared.label}: {compared.text}", _FACTS[compared.tone])


def most_of(sentences: Sequence[str]) -> Iterator[str]:
    """The first few, and how many there are beside."""
    yield from sentences[:SENTENCES]
    if len(sentences) > SENTENCES:
        yield f"and {len(sentences) - SENTENCES:,} more"


# Screens


def run_screen(view: RunView) -> Iterator[Text]:
    """After a run, and after its folder was judged again."""
    yield head_line(view.head)
    yield Text()
    yield from fact_lines(view.disturbances)
    if view.disturbances:
        yield Text()
    yield from verdict_lines(view.verdicts)
    if view.exercised:
        yield from fact_lines([Fact("exercised", view.exercised)])
    yield Text(f"  strongest guarantee seen   {view.strongest}")
    if view.not_looked_at:
        yield Text(f"  not looked at: {view.not_looked_at}", style="yellow")
    if view.unchecked:
        yield Text(f"  the operators are taken at their word: {view.unchecked}", style="yellow")
    yield Text()
    yield folder_line(view.folder)


def search_screen(view: SearchView) -> Iterator[Text]:
    """After a search."""
    for found in view.found:
        yield from _found(found)
    yield head_line(view.head)
    yield Text()
    yield from fact_lines(view.facts)


def _found(found: FoundView) -> Iterator[Text]:
    yield Text.assemble(("VIOLATED", "bold red"), f"   {found.how}")
    yield Text()
    width = max(len(what) for what, _ in found.schedule)
    for number, (what, when) in enumerate(found.schedule, start=1):
        yield Text(f"  {number}  {what:<{width}}   {when}")
    yield Text()
    if found.evidence:
        yield Text(f"  {found.evidence}")
    if found.command:
        yield Text.assemble(f"  with {found.input}. {found.command}", ("  (also with --cluster embedded)", "dim"))
    else:
        yield Text(f"  with {found.input}. It is kept in no file: {found.unkept}")
    yield Text()


def replay_screen(view: ReplayView) -> Iterator[Text]:
    """After a counterexample was run again."""
    yield head_line(view.head)
    yield Text()
    yield from fact_lines(view.faults)
    verdict = view.verdict
    line = Text.assemble(f"  {verdict.claim}   ", (str(verdict.status), _VERDICTS[verdict.tone]))
    yield line.append(f"   {verdict.summary}")
    yield from (Text(f"      {amount}") for amount in verdict.measured)
    yield from (Text(f"      {finding.text}") for finding in verdict.findings)
    yield Text()
    yield Text(f"  {view.compared}")
    if view.folder is not None:
        yield Text(f"  run {view.folder}")


def saved_screen(view: SavedView) -> Iterator[Text]:
    """After a schedule that a campaign has saved was run again."""
    yield from fact_lines(view.faults)
    yield Text()
    yield from verdict_lines(view.verdicts)
    yield folder_line(view.folder)


def certificate_screen(view: CertificateView) -> Iterator[Text]:
    """When a certificate has been written."""
    yield from _certificate(view)
    if view.more:
        yield Text.assemble("  ", ("more time: ", "dim"), view.more)
    yield Text.assemble(
        "  certificate ",
        str(view.folder / view.page),
        ("     judge it again: ", "dim"),
        f"streamproof judge {shlex.quote(str(view.folder))}",
    )


def unfinished_screen(view: CertificateView) -> Iterator[Text]:
    """When a campaign was interrupted."""
    yield from _certificate(view)
    folder = shlex.quote(str(view.folder))
    yield Text.assemble("  campaign ", str(view.folder), ("     draw it: ", "dim"), f"streamproof report {folder}")


def rejudged_screen(view: RejudgedView) -> Iterator[Text]:
    """When a certificate was judged again."""
    yield from _certificate(view.certificate)
    folder = view.certificate.folder
    if not view.differences:
        yield Text(f"  {folder}: {view.agreement}")
        return
    yield Text(f"  {folder} does not say what its records come to:", "bold red")
    yield from (Text(f"      {difference}") for difference in most_of(view.differences))


def _certificate(view: CertificateView) -> Iterator[Text]:
    yield head_line(view.head)
    yield Text(f"  {view.in_short}", "bold")
    yield Text()
    covered, *continued = view.covered
    yield from fact_lines(
        [
            Fact("covered", covered),
            *(Fact("", said) for said in continued),
            *(Fact("not covered", said) for said in most_of(view.not_covered)),
            *(Fact("error", said) for said in view.errors),
            *(Fact("sample", said) for said in view.sample),
        ],
        _WIDE_LABEL,
    )
    yield Text()
    yield from verdict_lines(view.verdicts, SENTENCES)
    if view.story is not None:
        yield from _story(view.story)


def _story(story: StoryView) -> Iterator[Text]:
    yield Text(f"  {story.title}")
    yield Text()
    for number, sentence in enumerate(story.sentences, start=1):
        yield Text(f"  {number:>3}  {sentence}")
    yield Text()
    yield Text.assemble("  ", ("replay it: ", "dim"), story.command)
    yield Text()
