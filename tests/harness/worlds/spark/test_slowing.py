"""What counts as slowed of what passes through a proxy."""

from __future__ import annotations

import pytest

from streamproof.harness.core.quantities import ms
from streamproof.harness.worlds.spark.control import slowing, toxics
from streamproof.harness.worlds.spark.control.slowing import Passage, Slowing
from streamproof.harness.worlds.spark.control.toxics import Toxic

Passes = tuple[float, int, float]
"""When it goes in, in ms, how many bytes it is, and when it comes out, in ms."""


def counted(toxic: Toxic, passes: list[Passes], monkeypatch: pytest.MonkeyPatch) -> int:
    """What a slowing counts that is in force from 0 to 10,000 ms."""
    one = Slowing(lambda sender, receiver: True, toxic)
    one.began, one.ended = 0.0, 10.0
    passage = Passage(("up", "down"), [one])
    steps = [(at, passage.enter, size) for at, size, _ in passes] + [
        (at, passage.leave, size) for _, size, at in passes
    ]
    for at, step, size in sorted(steps, key=lambda step: step[0]):
        with monkeypatch.context() as patch:
            patch.setattr(slowing.time, "monotonic", lambda at=at: at / 1e3)
            step(size)
    return one.proof.count


@pytest.mark.parametrize(
    ("passes", "held_back"),
    [
        ([(10, 100, 10.6), (20, 100, 20.6)], 0),
        ([(10, 100, 110), (500, 100, 600)], 0),
        ([(10, 100, 110), (20, 100, 211)], 100),
        ([(10, 100, 110), (20, 100, 211), (230, 100, 330)], 100),
        ([(10, 1_000, 1_010), (20, 1, 1_012), (30, 1, 1_013)], 2),
        ([(10, 1_000, 10.5), (20, 1, 20.6)], 0),
        ([(-50, 100, 10), (20, 100, 110)], 0),
        ([(9_900, 100, 9_990), (9_910, 100, 10_090)], 0),
    ],
    ids=[
        "one at a time, fast",
        "one at a time",
        "one behind the other",
        "and one when both have passed",
        "two behind much",
        "behind what was not slowed",
        "behind what went in before",
        "until it has healed",
    ],
)
def test_a_narrow_link_holds_back_only_what_waits_for_what_was_before_it(
    passes: list[Passes], held_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 bytes/s: a byte takes 1 ms."""
    assert counted(toxics.bandwidth_toxic(1_000), passes, monkeypatch) == held_back


def test_what_comes_out_of_a_narrow_link_in_parts_waits_for_its_own_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Slowing(lambda sender, receiver: True, toxics.bandwidth_toxic(1_000))
    one.began = 0.0
    passage = Passage(("up", "down"), [one])
    for at, step, size in ((0.01, passage.enter, 300), (0.11, passage.leave, 100), (0.31, passage.leave, 200)):
        monkeypatch.setattr(slowing.time, "monotonic", lambda at=at: at)
        step(size)
    assert one.proof.count == 200


def test_a_delay_holds_back_what_takes_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [(10.0, 5, 12.0), (20.0, 7, 170.0), (30.0, 11, 179.0)]
    assert counted(toxics.latency(ms(150)), passes, monkeypatch) == 7
    assert counted(toxics.latency(ms(150), ms(1)), passes, monkeypatch) == 18
