"""What a search does to the garbage collector of its process, and puts back."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from streamproof.harness.exploration.memory import seldom_looked_at


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Nothing is frozen at first, and the collector is afterwards as it was."""
    before, was, frozen = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()
    gc.set_threshold(*before)
    if was:
        gc.enable()


def test_what_was_there_is_not_looked_at_meanwhile_and_is_again_afterwards() -> None:
    gc.set_threshold(5, 6, 7)
    gc.disable()
    with seldom_looked_at():
        assert gc.get_freeze_count() > 0
        assert gc.isenabled()
        assert gc.get_threshold() != (5, 6, 7)
    assert gc.get_freeze_count() == 0
    assert not gc.isenabled()
    assert gc.get_threshold() == (5, 6, 7)


def test_what_somebody_else_has_frozen_stays_so_and_all_is_not_looked_at_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    looks: list[object] = []
    monkeypatch.setattr(gc, "collect", looks.append)
    with seldom_looked_at():
        assert gc.get_freeze_count() == frozen
    assert gc.get_freeze_count() == frozen
    assert looks == []


def test_a_search_within_a_search_leaves_the_rest_of_that_as_it_was() -> None:
    with seldom_looked_at():
        frozen, thresholds = gc.get_freeze_count(), gc.get_threshold()
        with seldom_looked_at():
            assert gc.get_freeze_count() == frozen
        assert (gc.get_freeze_count(), gc.get_threshold()) == (frozen, thresholds)
    assert gc.get_freeze_count() == 0
