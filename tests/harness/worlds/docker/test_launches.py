"""Launches of a cluster's nodes, and its end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamproof.harness.core.errors import Unsupported
from streamproof.harness.worlds.docker.launches import Launches


def test_launches_do_not_wait_for_one_another() -> None:
    launches = Launches()
    both = threading.Barrier(2)

    def launch(name: str) -> int:
        with launches.one(name):
            return both.wait(timeout=10)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(launch, ("node-0", "node-1"))) == [0, 1]


def test_the_end_waits_for_what_is_under_way_and_lets_nothing_begin() -> None:
    launches = Launches()
    with launches.one("node-0"):
        end = threading.Thread(target=launches.close)
        end.start()
        assert launches.closing.wait(10)
        with pytest.raises(Unsupported, match=r"node-1 cannot be started: the cluster is being stopped"):
            launches.one("node-1").__enter__()
        assert end.is_alive()
    end.join(10)
    assert not end.is_alive()


def test_nothing_begins_while_a_cluster_is_looked_at() -> None:
    launches = Launches()
    begun = threading.Event()

    def launch() -> None:
        with launches.one("node-0"):
            begun.set()

    beginning = threading.Thread(target=launch)
    with launches.none():
        beginning.start()
        assert not begun.wait(0.05)
    assert begun.wait(10)
    beginning.join()
