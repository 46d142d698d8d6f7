"""Who hears whom: told once, in one order, whatever the world."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from streamproof.harness.core.errors import OwnFailure
from streamproof.harness.core.topology import Role
from streamproof.harness.protocol.directory import Directory, Told
from streamproof.harness.protocol.making import Feed, make_slice
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.word_count import word_count


@dataclass(frozen=True)
class Slot:
    slice_id: str
    upstream: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    addressees: tuple[str, ...] = ()
    coordinators: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


def chain() -> Directory:
    return Directory(
        [
            Slot("source", downstream=("middle",)),
            Slot("middle", upstream=("source",), downstream=("sink",)),
            Slot("sink", upstream=("middle",), addressees=("source",)),
        ]
    )


def test_a_slice_hears_who_is_active_upstream_whichever_of_the_two_came_first() -> None:
    early = chain()
    assert early.announce("source", 1, active=True) == []
    assert early.announce("middle", 1, active=True) == [Told("middle", 1, "source", 1)]
    late = chain()
    assert late.announce("middle", 1, active=True) == []
    assert late.announce("source", 1, active=True) == [Told("middle", 1, "source", 1)]


def test_one_that_is_not_active_hears_and_is_not_heard_until_it_is() -> None:
    directory = chain()
    directory.announce("sink", 1, active=True)
    directory.announce("source", 1, active=True)
    assert directory.announce("middle", 1, active=False) == [Told("middle", 1, "source", 1)]
    assert directory.announce("middle", 1, active=True) == [Told("sink", 1, "middle", 1)]
    assert directory.announce("middle", 1, active=True) == []


def test_peers_hear_of_one_another_and_the_later_one_calls() -> None:
    directory = chain()
    directory.announce("middle", 1, active=True)
    told = directory.announce("middle", 2, active=False)
    assert told == [Told("middle", 1, "middle", 2), Told("middle", 2, "middle", 1)]
    assert [directory.calls(one) for one in told] == [False, True]


def test_the_end_of_one_is_told_to_all_that_deal_with_it_and_to_its_peers() -> None:
    directory = chain()
    for slice_id in ("source", "middle", "sink"):
        directory.announce(slice_id, 1, active=True)
    directory.announce("middle", 2, active=False)
    assert directory.withdraw("middle", 1) == [
        Told("source", 1, "middle", 1),
        Told("sink", 1, "middle", 1),
        Told("middle", 2, "middle", 1),
    ]
    assert dict(directory.of("middle")) == {2: False}


def test_one_that_was_withdrawn_is_never_heard_of_again() -> None:
    directory = chain()
    directory.announce("sink", 1, active=True)
    directory.withdraw("middle", 1)
    assert directory.announce("middle", 1, active=True) == []
    assert directory.is_gone("middle", 1)
    assert not directory.of("middle")


def test_a_slice_calls_those_its_mechanisms_send_to_besides() -> None:
    directory = Directory(source_replay(stateless()).specs)
    assert directory.hears("sink-0", "source-0")
    directory.announce("sink-0", 1, active=True)
    assert Told("sink-0", 1, "source-0", 1) in directory.announce("source-0", 1, active=True)


def test_a_slice_is_made_for_its_role_and_only_a_source_needs_a_feed() -> None:
    specs = passive_replication(word_count()).specs
    feed = Feed(lambda source: iter([]), 1, 1)
    for spec in specs:
        assert make_slice(spec, feed).spec is spec
        if spec.role is Role.SOURCE:
            with pytest.raises(OwnFailure, match="nothing is offered"):
                make_slice(spec)
        else:
            make_slice(spec)
