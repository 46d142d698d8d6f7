"""What `certify` says while it works, and what it says for programs."""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

import msgspec
from rich.text import Text

from ..certifying.certificate import Certificate
from ..certifying.page import covered_said, not_covered_said, subject_name
from ..certifying.rejudging import JudgedRun
from ..certifying.replaying import status_of
from .progress_line import LiveLine
from .screen import verdict_lines

if TYPE_CHECKING:
    from ..certifying.budget import CampaignProgress

_TICK: Final = 1.0
"""Seconds after which the time left is shown anew."""
_ALIVE: Final = 60.0
"""Seconds after which a line says so where no terminal shows it."""


class CertifyingLine(LiveLine):
    """That of a campaign: the phase, what is done of what is planned, and the time left, which goes on meanwhile. In a
    pipe or a file it is a line of its own every minute."""

    def __init__(self, stream: TextIO, starting: str, alive: float = _ALIVE) -> None:
        super().__init__(stream, starting)
        self._alive = alive
        self._newest: tuple[str, float] | None = None
        """What a campaign has said last, and when its time is up, on the monotonic clock."""
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._clock = threading.Thread(target=self._tick, name="live line", daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._clock.join()
        super().__exit__(kind, error, at)

    def show(self, progress: CampaignProgress) -> None:
        """What a campaign calls, as often as it likes, from any thread."""
        said = f"{progress.phase}: {progress.done:,} of {progress.planned:,}" if progress.planned else progress.phase
        self._newest = said, time.monotonic() + progress.seconds_left
        self._redraw()

    def _tick(self) -> None:
        # Where it cannot be redrawn, it is written anew.
        each, say = (_TICK, self._redraw) if self._shown else (self._alive, self._write)
        while not self._over.wait(each):
            say()

    def _write(self) -> None:
        try:
            self._stream.write(f"streamproof: {self._said() or self._starting}\n")
            self._stream.flush()
        except OSError:
            self._over.set()  # Nobody reads it any more.

    def _redraw(self) -> None:
        said = self._said()
        if said:
            with self._drawing:
                self._draw(said)

    def _said(self) -> str:
        if self._newest is None:
            return ""
        said, end = self._newest
        left = round(end - time.monotonic())
        time_left = f"at most {left // 60}:{left % 60:02} min left" if left > 0 else "the time is up, finishing"
        return f"{said} · {time_left}"


def certificate_document(certificate: Certificate, folder: Path) -> dict[str, Any]:
    """What `certify --json` prints; `certificate.json` has all of it."""
    passed = Counter(claim for line in certificate.coverage for claim in line.passed)
    return {
        "folder": str(folder),
        "name": certificate.name,
        "subject": subject_name(certificate),
        "cluster": certificate.cluster.get("cluster"),
        "seed": certificate.seed,
        "budget": certificate.budget,
        "verdicts": [msgspec.to_builtins(verdict) for verdict in certificate.verdicts],
        "coverage": {
            "planned": len(certificate.coverage),
            "passed": {str(claim): passed[str(claim)] for claim in certificate.claims},
            "trials": {str(how): count for how, count in Counter(trial.how for trial in certificate.trials).items()},
            "said": covered_said(certificate),
        },
        "not_covered": list(not_covered_said(certificate)),
        "bounds": [msgspec.to_builtins(bound) for bound in certificate.bounds],
        "counterexample": msgspec.to_builtins(certificate.counterexample),
        "parts": msgspec.to_builtins(certificate.parts),
        "more": msgspec.to_builtins(certificate.more),
        "durations": certificate.durations,
        "figures": certificate.figures,
        "exit_status": int(certificate.exit_status),
    }


def end_of_saved(judged: JudgedRun, folder: Path) -> Iterator[Text]:
    """The screen after a saved schedule was run again."""
    for fault in judged.description.schedule:
        yield Text(f"  fault      {fault}")
    yield Text()
    yield from verdict_lines(judged.verdicts)
    yield Text.assemble(
        "  run ", str(folder), ("     judge it again: ", "dim"), f"streamproof judge {shlex.quote(str(folder))}"
    )


def saved_document(judged: JudgedRun, folder: Path) -> dict[str, Any]:
    """What `replay --json` prints of it."""
    return {
        "scenario": judged.description.scenario,
        "cluster": judged.description.cluster.get("cluster"),
        "schedule": [str(fault) for fault in judged.description.schedule],
        "verdicts": msgspec.to_builtins(judged.verdicts),
        "digest": judged.digest,
        "folder": str(folder),
        "exit_status": int(status_of(judged)),
    }
