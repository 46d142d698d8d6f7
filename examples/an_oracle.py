"""A guarantee of one's own, in one file: no key is delivered more than so many times.

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


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """The recorder takes no key of a sink more than `times` times. (Ours.)"""
    most = guarantee.required("times", int)
    counts: Counter[tuple[str, str]] = Counter()
    for delivered in case.history.each(Delivered):
        counts.update((delivered.sink, row.key) for row in delivered.rows)
    often = [Evidence(f"{key!r} came {n} times", sink) for (sink, key), n in sorted(counts.items()) if n > most]
    found = (tally("too-often", len(often), often),) if often else ()
    return decide(case, guarantee, found, f"{len(counts):,} keys, none more than {most} times")


ORACLE = Oracle(
    "no-key-more-than",
    judge,
    anomalies=("too-often",),
    parameters=(Parameter("times", (int,), "how often a key may come", required=True),),
)
ORACLES = (ORACLE,)
"""What the package's metadata names; see pyproject.toml."""


def _scenario(*, sink_filter: bool) -> Scenario:
    """Each line of the text has a key of its own."""
    once = ORACLE.claim(times=1)
    return Scenario(
        passive_replication(stateless(), checkpoint_every=events(50), sink_filter=sink_filter),
        text(events=400),
        [crash("tag-0").after(events(120))],
        claims=[once] if sink_filter else [],
        breaks=[] if sink_filter else [once],
    )


def masked() -> Scenario:
    """A crash is masked by the sink's filter: every key comes once."""
    return _scenario(sink_filter=True)


def repeated() -> Scenario:
    """Without the filter, what was delivered since the last checkpoint comes again."""
    return _scenario(sink_filter=False)


SCENARIOS = (masked, repeated)
