"""Silence is a loss, unless it is that of the listener."""

from __future__ import annotations

from streamproof.harness.worlds.spark.schemes.silence import SilenceWatch


def test_a_node_that_is_silent_for_longer_than_the_limit_is_lost() -> None:
    silence = SilenceWatch(limit=2.0, every=0.5, now=0.0)
    silence.heard("node-0", 0.0)
    silence.heard("node-1", 0.0)
    lost = []
    for look in range(1, 6):
        silence.heard("node-1", look * 0.5)
        lost.append(silence.look(look * 0.5))
    assert lost == [[], [], [], [], ["node-0"]]
    silence.forget("node-0")
    assert silence.look(3.0) == []


def test_one_who_was_stopped_takes_nobody_for_lost_before_it_has_listened_again() -> None:
    silence = SilenceWatch(limit=2.0, every=0.5, now=0.0)
    silence.heard("node-0", 0.0)
    assert silence.look(0.5) == []
    assert silence.look(60.0) == [], "whatever has come meanwhile has not been read"
    silence.heard("node-0", 60.0)
    assert silence.look(60.5) == []


def test_what_was_silent_before_the_listener_stopped_has_no_more_time_than_it_had() -> None:
    silence = SilenceWatch(limit=2.0, every=0.5, now=0.0)
    silence.heard("node-0", 0.0)
    silence.heard("node-1", 0.0)
    assert [silence.look(look * 0.5) for look in range(1, 4)] == [[], [], []]
    # Stopped for 10 s, and what was queued is read before the first look.
    silence.heard("node-1", 11.9)
    assert [silence.look(12.0), silence.look(12.5)] == [[], ["node-0"]]
    assert [len(silence.look(12.5 + look * 0.5)) for look in range(1, 5)] == [1, 1, 1, 2]
