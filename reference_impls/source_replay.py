"""Source replay: whoever started an event sees it through, or starts it again (R+SM, sections 8.3 and 14.1.2: Storm's
acker).

- Every copy of an event on its way has an id. Each slice tells the source of an event, in one exclusive or, the id that
  it took and those of what it made of it. At zero nothing of the event is on its way.
- What is not at zero when its time is out is sent again by the source, as a new attempt with ids of its own.
- Nobody filters: what was on its way all the same counts again. Duplicates are legal, without any failure too.
- A state is lost with its slice. An operator with a window therefore tells nothing of an event before it has left the
  window, so that a failure brings the whole window back; and so the window, in the time that it takes at the pace of
  the input, has to be shorter with the latency than the time-out, or its events are sent again and again, and given
  up. One that keeps state for ever could never tell, and is refused.
- Event time goes on while what was lost waits for its time-out, and when it comes again its window may be over: it is
  forgotten at once, though others that were in that window are not, and a second failure brings those back alone. So
  with windows the claim is for one failure.
- What is fed back is followed like all else, so the time-out has to be longer than an event goes round. A window would
  wait for what comes after an event to come back before the event itself is done: with feedback it is refused.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import at_least_once
from ..harness.core.quantities import Duration, seconds
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.judging.tolerance import Tolerance
from ..harness.protocol.spec import Setup
from .mechanisms.silence import TellSilence
from .mechanisms.tracking import Tell, Track
from .requirements import acyclic, forgetful, settings


def source_replay(
    topology: Topology, *, timeout: Duration = seconds(30), silence: Duration = seconds(0.002)
) -> SchemeSubject:
    """Claims at-least-once effects, seen in the outputs, for any number of failures of workers, with windows for one;
    the source survives.

    Costs a message to the source for every batch that a slice takes, and whole events again that came too late.

    Raises InvalidTopology for an operator that keeps state without a window, and for one with a window where the
    topology leads back. Where a window is not shorter than the
    time-out at the pace at which the input comes, a cluster refuses the scenario.
    """
    scheme = "source replay"
    forgetful(topology, scheme)
    if any(stage.operator.window is not None for stage in topology.stages.values()):
        acyclic(
            topology, scheme, "a window is left only by what comes after it, and that would wait for what comes back"
        )
    settings(scheme, timeout=timeout, silence=silence)
    track, quiet = Track(timeout), TellSilence(silence)
    return SchemeSubject(
        kind="source-replay",
        topology=topology,
        setups={
            Role.SOURCE: Setup((track, quiet)),
            Role.OPERATOR: Setup((Tell(), quiet)),
            Role.SINK: Setup((Tell(),)),
        },
        claims=(Claim(at_least_once(), _tolerated(topology), "a source that survives", (Activity.REPLAY,)),),
        keeps_state=False,
    )


def _tolerated(topology: Topology) -> Tolerance:
    windows = any(stage.operator.window is not None for stage in topology.stages.values())
    return Tolerance.ONE if windows else Tolerance.ANY
