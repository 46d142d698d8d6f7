"""Who gives no sign of work is silent for as long as the machine had time for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from streamproof.harness.core.signs import Signs, share_of_machine


@dataclass
class Watched:
    """Somebody on a machine, under a clock that is set by hand."""

    now: float = 0.0
    work: int = 0
    share: float = 1.0
    signs: Signs = field(init=False)

    def __post_init__(self) -> None:
        self.signs = Signs(lambda: self.work, lambda: self.now, lambda: self.share)

    def silent_after(self, *steps: float) -> float:
        silent = 0.0
        for step in steps:
            self.now += step
            silent = self.signs.silent()
        return silent


def test_silence_adds_up_and_a_sign_ends_it() -> None:
    watched = Watched()
    assert watched.silent_after(0.5, 0.5, 0.5) == 1.5
    watched.work += 1
    assert watched.silent_after(0.5) == 0
    assert watched.silent_after(0.5) == 0.5


def test_where_the_machine_is_shared_it_takes_longer() -> None:
    watched = Watched(share=0.25)
    assert watched.silent_after(*[0.5] * 8) == 1.0


def test_who_was_stopped_itself_has_seen_nothing_meanwhile() -> None:
    assert Watched().silent_after(3600.0) == 1.0


@pytest.mark.parametrize(("load", "cores", "share"), [(0.1, 2, 1.0), (2.0, 2, 1.0), (8.0, 2, 0.25), (3.0, None, 1 / 3)])
def test_a_process_has_its_share_of_the_cores(
    load: float, cores: int | None, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert share_of_machine() == pytest.approx(share)
