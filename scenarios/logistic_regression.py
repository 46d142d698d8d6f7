"""Online logistic regression with feedback (experiment 5 of AF-Stream): workers train models of their own, a server
averages them and feeds the average back.

- Each model stays within a sphere around 0, and an average pulls a worker's model towards itself by no more than a step
  does. So each event moves a state by a bounded amount, which is what `alpha` promises; a model that an average would
  replace could be moved by anything.
- What goes up and comes back are punctuations: of these none may be lost.
- Sums are rounded once (fsum), and the logistic function is made of nothing but products and sums: so the same comes
  out on each machine. numpy would add in an order that depends on the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Any

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .parameter_server import one_for_each

AVERAGE, LOCAL = "average", "local"
_ROUNDING = 1e-9
"""What roundings add to a distance, at most."""

Model = list[float]


def likely(model: Sequence[float], point: Sequence[float]) -> float:
    """How likely label 1 is."""
    margin = max(-30.0, min(30.0, _product(model, point)))
    small = -margin / 4096
    power = 1 + small * (1 + small / 2 * (1 + small / 3))
    for _ in range(12):
        power *= power
    return 1 / (1 + power)


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return fsum(map(float.__mul__, one, other))


def _length(vector: Sequence[float]) -> float:
    return sqrt(fsum(x * x for x in vector))


def _moved(model: Model, towards: Sequence[float], most: float) -> Model:
    """A model, moved by a vector, or by as much of it as is no longer than `most`."""
    length = _length(towards)
    share = 1.0 if length <= most else most / length
    return [w + share * t for w, t in zip(model, towards, strict=True)]


class LocalModel(Operator[dict[str, Any]]):
    """Takes a step of gradient descent with each point, and tells its model after every `every` of them. How far two
    states are apart is the distance of their models."""

    fan_out = 1
    order_sensitive = True

    def __init__(self, dimensions: int, every: int, step: float, radius: float) -> None:
        """Raises InvalidOperator for what is no model."""
        positive(dimensions, "dimensions", InvalidOperator)
        positive(every, "every", InvalidOperator)
        for name, amount in (("step", step), ("radius", radius)):
            if not isinstance(amount, int | float) or not 0 < amount < float("inf"):
                raise InvalidOperator(f"{name}={amount!r} of a model: it is a number above 0")
        self.alpha: float = step + _ROUNDING
        self._dimensions, self._every, self._step, self._radius = dimensions, every, step, radius

    def initial_state(self) -> dict[str, Any]:
        return {"model": [0.0] * self._dimensions, "points": 0}

    def punctuation(self, event: Event) -> bool:
        return operator_of(event.source) == AVERAGE

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        model = state["model"]
        if operator_of(event.source) == AVERAGE:
            away = [float(a) - w for a, w in zip(event.value, model, strict=True)]
            state["model"] = _moved(model, away, self._step)
            return []
        point, label = list(map(float, event.value[0])), event.value[1]
        slope = self._step * (label - likely(model, point))
        moved = _moved(model, [slope * x for x in point], self._step)
        # Within the sphere: no two models are further apart than they were.
        outside = _length(moved) / self._radius
        state["model"] = [w / outside for w in moved] if outside > 1 else moved
        state["points"] += 1
        return [] if state["points"] % self._every else [("model", state["model"])]

    def divergence(self, state: dict[str, Any], backup: dict[str, Any]) -> float:
        return _length([w - b for w, b in zip(state["model"], backup["model"], strict=True)])

    def rows(self, state: dict[str, Any]) -> dict[str, Value]:
        """The model. How many points it has seen says only when it is told next."""
        return {"model": state["model"]}


class AverageModel(Operator[dict[str, Model]]):
    """Keeps the last model of each worker, and tells each worker the average of all. How far two states are apart is
    the distance of all models together; one that is not there is 0."""

    def __init__(self, workers: int, radius: float) -> None:
        self.fan_out: int = workers
        self.alpha: float = 2 * radius + _ROUNDING
        self._keys = one_for_each(workers)

    def initial_state(self) -> dict[str, Model]:
        return {}

    def punctuation(self, event: Event) -> bool:
        return True

    def process(self, event: Event, state: dict[str, Model]) -> list[Output]:
        state[event.source] = list(map(float, event.value))
        average = [fsum(some) / len(state) for some in zip(*(state[worker] for worker in sorted(state)), strict=True)]
        return [(key, average) for key in self._keys]

    def divergence(self, state: dict[str, Model], backup: dict[str, Model]) -> float:
        apart: list[float] = []
        for worker in sorted(state.keys() | backup.keys()):
            known = state.get(worker) or backup[worker]
            one, other = (models.get(worker, [0.0] * len(known)) for models in (state, backup))
            apart += [a - b for a, b in zip(one, other, strict=True)]
        return _length(apart)


def logistic_regression(
    workers: int = 2, dimensions: int = 5, *, every: int = 10, step: float = 0.5, radius: float = 20.0
) -> Topology:
    """`workers` local models (the paper: 10, told every 1,000 points) and a server: `local-0`, `local-1`, `average-0`,
    which feeds back. To be fed with `points`, of as many dimensions."""
    positive(workers, "workers", InvalidOperator)
    return Topology(
        "logistic-regression",
        {
            LOCAL: Stage(LocalModel(dimensions, every, step, radius), workers),
            AVERAGE: Stage(AverageModel(workers, radius)),
        },
        (
            Edge("source", LOCAL, Partitioning.FULL),
            Edge(LOCAL, AVERAGE, Partitioning.MERGE),
            # An average changes a model, and is answered by nothing.
            Edge(AVERAGE, LOCAL, Partitioning.FULL, feedback=True, leads_to=0),
            Edge(AVERAGE, "sink", Partitioning.MERGE),
        ),
    )
