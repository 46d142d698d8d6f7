"""What the live view is drawn from: the record as it is on the disk, or what a search has said last.

A run that has not ended is UNKNOWN here, whatever it looks like, and so are the claims of a campaign; what the kills of
a campaign, or the schedules of a search, have shown to be violated is VIOLATED: nothing that comes later mends it.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Final, Protocol

from ...core.reasons import Reason, Why
from ...core.verdicts import unknown
from .messages import WatchCampaign, WatchedSubject, WatchRun, WatchSearch

RUN_GOES_ON: Final = "the run goes on, and is judged when it has ended"
REPORT: Final = "streamproof report {} draws all of it."


class WatchedSource(Protocol):
    """What is watched."""

    def mark(self) -> Hashable:
        """Another one, once there is something new to draw."""

    def draw(self) -> str | None:
        """The page; None where nothing has happened yet. Raises what reading a record raises."""


def source_of(subject: WatchedSubject) -> WatchedSource:
    match subject:
        case WatchRun(folder):
            return WatchedRun(Path(os.fsdecode(folder)))
        case WatchCampaign(folder):
            return WatchedCampaign(Path(os.fsdecode(folder)))
        case WatchSearch():
            return WatchedSearch(subject)


class WatchedRun:
    """A run folder that is being written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def mark(self) -> Hashable:
        names = "scenario.json", "records.frames", "timeline.jsonl", "verdicts.json"
        return tuple(_size(self._folder / name) for name in names)

    def draw(self) -> str | None:
        from ...judging.collation import CollatedQuery
        from ...judging.recovery import sure_recoveries
        from ...recording.folder import read_description, read_unfinished
        from ...reporting.html.document import shell_word
        from ...reporting.html.recorded import as_recorded
        from ...reporting.html.run_page import run_html, run_page
        from ...running.judgement import Judgement

        folder = self._folder
        if not (folder / "timeline.jsonl").exists():
            return None
        description, history = read_description(folder), read_unfinished(folder)
        recorded = as_recorded(description, history, folder)
        if recorded is not None:
            remark = f"The run has ended, and these are the verdicts on record. {REPORT.format(shell_word(folder))}"
            return run_html(run_page(description, history, recorded, folder, remark))
        why = Reason(Why.INCOMPLETE, RUN_GOES_ON)
        claims, breaks = (
            tuple(unknown(one.as_guarantee(), (), why) for one in some)
            for some in (description.claims, description.breaks)
        )
        nothing = CollatedQuery(observables=(), inputs=0)
        judgement = Judgement(claims, breaks, (), tuple(sure_recoveries(history)), nothing, "")
        remark = (
            "This is how far the run has come. Recoveries are shown until inputs had been taken again; whether a slice "
            "was heard again is seen at the end."
        )
        return run_html(run_page(description, history, judgement, folder, remark))


class WatchedCampaign:
    """A campaign's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def mark(self) -> Hashable:
        from ...certifying.certificate import FILE, JOURNAL

        return tuple(_size(self._folder / name) for name in (JOURNAL, FILE))

    def draw(self) -> str | None:
        from ...certifying.certificate import FILE, read_certificate
        from ...certifying.drawing import certificate_html
        from ...certifying.journal import is_under_way
        from ...certifying.so_far import GOES_ON, so_far

        folder = self._folder
        if is_under_way(folder):
            return certificate_html(so_far(folder, GOES_ON), folder, ended=False)
        if not (folder / FILE).exists():
            return None
        return certificate_html(read_certificate(folder), folder)


class WatchedSearch:
    """What a search has come to."""

    def __init__(self, said: WatchSearch) -> None:
        self._said = said

    def mark(self) -> Hashable:
        return id(self._said)

    def draw(self) -> str:
        from ...exploration.search_document import search_document
        from ...exploration.search_page import search_html
        from ..registered import registered

        file = Path("explore.json")
        return search_html(search_document(file, self._said.document), file, registered())


def _size(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
