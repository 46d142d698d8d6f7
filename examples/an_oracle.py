"""Guarantees of one's own, in one file: no key is delivered more than so many times, and none is left out.

Both ask for one analysis, which is their own, and is computed once for each history that either of them judges.

To be run in this folder:

    streamproof run an_oracle:masked --cluster simulated     # HOLDS
    streamproof run an_oracle:repeated --cluster simulated   # VIOLATED, as the scenario expects
"""

from __future__ import annotations

from collections import Counter

from streamproof import Guarantee, Scenario, crash, events, passive_replication, stateless, text
from streamproof.harness.core.parameters import Parameter
from streamproof.harness.core.verdicts import Evidence, Verdict, tally
from streamproof.harness.judging.oracle import Case, Oracle, decide
from streamproof.harness.recording.records import Delivered


def counted(case: Case) -> Counter[tuple[str, str]]:
    """An analysis: how often the recorder took each key, sink by sink."""
    counts: Counter[tuple[str, str]] = Counter()
    for delivered in case.history.each(Delivered):
        counts.update((delivered.sink, row.key) for row in delivered.rows)
    return counts


def judge_most(case: Case, guarantee: Guarantee) -> Verdict:
    """The recorder takes no key of a sink more than `times` times. (Ours.)"""
    most, counts = guarantee.required("times", int), case.analysis(counted)
    often = [Evidence(f"{key!r} came {n} times", sink) for (sink, key), n in sorted(counts.items()) if n > most]
    found = (tally("too-often", len(often), often),) if often else ()
    return decide(case, guarantee, found, f"{len(counts):,} keys, none more than {most} times")


def judge_all(case: Case, guarantee: Guarantee) -> Verdict:
    """The recorder takes `keys` different keys of each sink, or more. (Ours.) Fewer are too few once the run has come
    to its end."""
    least = guarantee.required("keys", int)
    keys = Counter(sink for sink, _ in case.analysis(counted))
    few = [Evidence(f"{n:,} keys came", sink) for sink, n in sorted(keys.items()) if n < least]
    found = (tally("too-few-keys", len(few), few),) if few and not case.collation.incomplete else ()
    return decide(case, guarantee, found, f"{least:,} keys or more in each sink", goes_on=True)


ORACLE = Oracle(
    "no-key-more-than",
    judge_most,
    anomalies=("too-often",),
    parameters=(Parameter("times", (int,), "how often a key may come", required=True),),
)
ALL = Oracle(
    "keys-at-least",
    judge_all,
    anomalies=("too-few-keys", "stall"),
    parameters=(Parameter("keys", (int,), "how many keys must come", required=True),),
)
ORACLES = (ORACLE, ALL)
"""What the package's metadata names; see pyproject.toml."""


def _scenario(*, sink_filter: bool) -> Scenario:
    """Each line of the text has a key of its own."""
    once, every = ORACLE.claim(times=1), ALL.claim(keys=400)
    return Scenario(
        passive_replication(stateless(), checkpoint_every=events(50), sink_filter=sink_filter),
        text(events=400),
        [crash("tag-0").after(events(120))],
        claims=[once, every] if sink_filter else [every],
        breaks=[] if sink_filter else [once],
    )


def masked() -> Scenario:
    """A crash is masked by the sink's filter: every key comes once."""
    return _scenario(sink_filter=True)


def repeated() -> Scenario:
    """Without the filter, what was delivered since the last checkpoint comes again."""
    return _scenario(sink_filter=False)


SCENARIOS = (masked, repeated)
