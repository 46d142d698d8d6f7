"""Amnesia: nothing is protected (StreamMine3G, section 2.2.2).

A slice that crashed starts blank and goes on with whatever comes next. Its state, what was on its way to it, and what
came while it was away are lost. Its new incarnation numbers its outputs afresh, so that nobody takes them for old
ones.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import amnesia_recovery as amnesia_guarantee
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.spec import Setup


def amnesia(topology: Topology) -> SchemeSubject:
    """Claims amnesia, for any number of failures. Costs nothing."""
    return SchemeSubject(
        kind="amnesia",
        topology=topology,
        setups=dict.fromkeys(Role, Setup()),
        claims=(Claim(amnesia_guarantee(), rests_on=(Activity.RESTART,)),),
    )
