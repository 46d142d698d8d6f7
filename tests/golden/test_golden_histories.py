"""What happens in the simulator, and what is said of it, is what was written down.

A commit that only makes something over changes none of it. One that changes what happens on purpose writes it anew, and
says which of it became other, and why.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest

from golden_lines import Block, Came, Difference, Planned, decoded, encoded, read, schemes_kept
from golden_runs import MUTANTS_FILE, Sized, claims_of, differences, digest, judged_of, mutants, scenario, workloads_of
from simulation import SCHEMES, history_of
from streamproof.faults.crash import crash
from streamproof.harness.core.schedule import checkpoint
from streamproof.harness.recording.history import FaultStruck, History, Stamp

WRITE = "tox -e golden --"
AT_ONCE = 130
"""Runs of a test, or a few more."""
ONE_OF = 3
"""Of so many runs, each run of the tests makes one; the long tests make the others too, as `tox -e golden` does."""
SHOWN = 3
TOLD = "If that is meant, write it anew and say in the commit's message which of it, and why"


def sampled(planned: Planned) -> bool:
    """By what a run is, so that others that come or go change nothing of which are made."""
    return zlib.crc32(f"{planned.world} {planned.seed} {planned.schedule}".encode()) % ONE_OF == 0


def sample(scheme: str) -> list[Block]:
    """What is kept, with the runs that are made in every run of the tests: of mutants all."""
    blocks = list(read(scheme))
    if scheme == MUTANTS_FILE:
        return blocks
    return [replace(block, runs=tuple(run for run in block.runs if sampled(run[0]))) for block in blocks]


def others(scheme: str) -> list[Block]:
    """The same, with the runs that only the long tests make."""
    made = {block.workload: set(block.runs) for block in sample(scheme)}
    return [replace(one, runs=tuple(run for run in one.runs if run not in made[one.workload])) for one in read(scheme)]


def groups(kept: Callable[[str], list[Block]]) -> Iterator[tuple[str, list[Block]]]:
    """Each scheme with some of its workloads, so that the tests share the cores."""
    for scheme in schemes_kept():
        some: list[Block] = []
        runs = 0
        for block in kept(scheme):
            some.append(block)
            runs += len(block.runs)
            if runs >= AT_ONCE:
                yield scheme, some
                some, runs = [], 0
        if runs:
            yield scheme, some


def grouped(kept: Callable[[str], list[Block]]) -> pytest.MarkDecorator:
    found = list(groups(kept))
    return pytest.mark.parametrize(
        ("scheme", "blocks"), found, ids=[f"{scheme}-{blocks[0].workload}" for scheme, blocks in found]
    )


def story(scheme: str, found: list[tuple[Block, Difference]], of: int) -> str:
    """What differs, the first of it in full."""
    counts = Counter(what for _, one in found for what in one.what)
    lines = [f"{len(found)} of {of} runs of {scheme} are not what they were: {dict(counts.most_common())}"]
    for block, one in found[:SHOWN]:
        lines += one.told(judged_of(block))
    if len(found) > SHOWN:
        where = Counter(block.workload for block, _ in found)
        lines.append(f"and {len(found) - SHOWN} more; by workload: {dict(where.most_common())}")
    return "\n".join([*lines, f"{WRITE} --check {scheme} says more. {TOLD}: {WRITE} {scheme}"])


def assert_as_written_down(scheme: str, blocks: list[Block]) -> None:
    found = [(block, one) for block in blocks for one in differences(scheme, block)]
    assert not found, story(scheme, found, sum(len(block.runs) for block in blocks))


@grouped(sample)
def test_every_run_comes_out_as_it_was_written_down(scheme: str, blocks: list[Block]) -> None:
    assert_as_written_down(scheme, blocks)


@pytest.mark.long
@grouped(others)
def test_the_other_runs_do_so_too(scheme: str, blocks: list[Block]) -> None:
    assert_as_written_down(scheme, blocks)


@pytest.mark.parametrize("scheme", schemes_kept())
def test_each_scheme_claims_what_was_written_down(scheme: str) -> None:
    now = {block.workload: claims_of(scenario(scheme, block.workload)) for block in read(scheme)}
    assert now == {block.workload: block.claims for block in read(scheme)}, f"{TOLD}: {WRITE} {scheme}"


def test_every_scheme_workload_and_mutant_is_kept() -> None:
    kept = {scheme: [block.workload for block in read(scheme)] for scheme in schemes_kept()}
    shown = {Sized.parse(workload).mutant for workload in kept.pop(MUTANTS_FILE)}
    assert kept == {scheme: workloads_of(scheme) for scheme in SCHEMES}, f"{WRITE} draws what is new"
    assert shown == set(mutants()), f"{WRITE} {MUTANTS_FILE} draws what is new"


def test_there_are_as_many_runs_as_it_takes_and_none_twice() -> None:
    runs = [
        (scheme, block.workload, planned)
        for scheme in schemes_kept()
        for block in read(scheme)
        for planned, _ in block.runs
    ]
    assert len(runs) == len(set(runs))
    made = sum(len(block.runs) for scheme in schemes_kept() for block in sample(scheme))
    assert 2_000 <= made < len(runs)


@pytest.mark.parametrize("scheme", schemes_kept())
def test_a_schedule_is_kept_as_it_is(scheme: str) -> None:
    for block in read(scheme):
        for planned, _ in block.runs:
            assert encoded(decoded(planned.schedule)) == planned.schedule


def test_each_mutant_is_kept_with_a_run_that_shows_its_anomaly() -> None:
    for block in read(MUTANTS_FILE):
        mutant = mutants()[Sized.parse(block.workload).mutant]
        ((_, came),) = block.runs
        assert str(mutant.anomaly) in came.verdicts, mutant.name


def test_another_digest_and_another_verdict_are_told_apart() -> None:
    """With the run, the guarantee, and how many more there are."""
    scheme = "gap"
    block = read(scheme)[0]
    planned, came = next((planned, came) for planned, came in block.runs if "lost-input" in came.verdicts)
    assert list(differences(scheme, _with(block, planned, came.digest, came.verdicts))) == []
    other = "0" * len(came.digest)
    (found,) = differences(scheme, _with(block, planned, other, came.verdicts))
    assert found.what == ("digest",)
    held = "H" * len(came.verdicts.split(" ")[0])
    (found,) = differences(scheme, _with(block, planned, came.digest, held))
    assert "digest" not in found.what
    assert "exactly-once" in found.what
    told = story(scheme, [(block, found)] * 5, 9)
    assert "5 of 9 runs of gap" in told
    assert f"gap on {block.workload}, world {planned.world}, seed {planned.seed}, {planned.schedule}" in told
    assert "exactly-once: was HOLDS, is VIOLATED lost-input=" in told
    assert "2 more" in told
    assert WRITE in told


def test_how_a_history_puts_it_is_no_part_of_it_and_when_is() -> None:
    schedule = [crash("trace-0").at(checkpoint(1).durable)]
    history = history_of(scenario("gap", "trace-numbered"), schedule)
    (struck,) = history.struck()

    def with_(other: FaultStruck) -> History:
        return replace(history, timeline=[other if entry is struck else entry for entry in history.timeline])

    assert any(entry is struck for entry in history.timeline)
    put_otherwise = with_(msgspec.structs.replace(struck, fault="a crash of trace-0"))
    later = with_(msgspec.structs.replace(struck, stamp=Stamp(struck.stamp.at + 1, struck.stamp.step)))
    not_gone = with_(msgspec.structs.replace(struck, bite=msgspec.structs.replace(struck.bite, gone=False)))
    assert digest(put_otherwise) == digest(history)
    assert len({digest(history), digest(later), digest(not_gone)}) == 3


def _with(block: Block, planned: Planned, digest: str, verdicts: str) -> Block:
    return replace(block, runs=((planned, Came(digest, verdicts)),))
