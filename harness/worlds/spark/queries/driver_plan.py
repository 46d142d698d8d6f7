"""What the driver of a query is told, in a file: what to run, from where, and whom to tell of it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from ....contracts.query import Query, RunFolders, label_of
from ....core.addresses import Moment
from ....core.pickling import modules_only_here, pickled
from ....core.wire import Endpoint
from ....install.private_files import write_private


class RunKind(Enum):
    """What is run of a query."""

    STREAM = "stream"
    BATCH_JOB = "batch job"
    """Over the same input, for a second opinion."""
    STORES = "stores"
    """Nothing of it: another run is read that has just begun; and where there are stores, which are reset for that one,
    this run, too."""


@dataclass(frozen=True)
class QueryRun:
    """One execution of the query, from its checkpoint on."""

    actor: str
    sink: str
    folders: RunFolders
    source_plan: Path
    """A `SourcePlan` in JSON."""
    armed: tuple[Moment, ...] | None = ()
    """The points of the harness's own sink that are announced; None: all."""
    waits: bool = False
    """Whether it begins only when the harness says go."""
    asks_to_read: bool = False
    """Whether another incarnation of the query may still write when it has come to its end."""
    stores_aside: Mapping[str, str] = field(default_factory=dict)
    """Where the stores outside are reached by what is no part of the query: their reset, and its reader."""
    kind: RunKind = RunKind.STREAM

    @property
    def aside(self) -> RunFolders:
        """For what is no part of the query."""
        return replace(self.folders, stores=self.stores_aside)

    @property
    def beside(self) -> RunFolders:
        """Those of another run, in which nothing was done yet; who looks into them makes them, beside this one's."""
        sink, checkpoint = (at.with_name(f"{at.name}.beside") for at in (self.folders.sink, self.folders.checkpoint))
        label = label_of(f"{self.folders.label}-beside")
        return replace(self.aside, label=label, sink=sink, checkpoint=checkpoint)


@dataclass(frozen=True)
class QueryPlan:
    """What a driver needs to know. It runs its runs one after the other in one JVM, each in a process and a session of
    its own."""

    token: str
    harness: Endpoint
    node: str
    incarnation: int
    query: Query
    spans: tuple[tuple[int, int], ...]
    """The first and the last event of each batch of the harness's source."""
    runs: tuple[QueryRun, ...]
    attaches: bool = False
    """Whether it takes the JVM that its environment names, and leaves it behind."""
    stands_by: bool = False
    """Whether a process of its own brings up the session first, and then waits for the one that runs the query."""
    warm_up: QueryRun | None = None
    """What that process runs meanwhile, of which nothing is recorded."""


@dataclass(frozen=True)
class PlanHead:
    """As much of a plan as can be read without any code of the user's."""

    token: str
    harness: Endpoint
    node: str
    incarnation: int
    query: str
    """Its name."""
    actors: tuple[str, ...]
    """Of its runs."""
    attaches: bool
    stands_by: bool
    settings: Mapping[str, str]
    secrets: Mapping[str, str]
    warehouses: tuple[Path, ...]
    """Of its runs."""
    working_folder: Path
    """Of the process that wrote the plan."""


def write_query_plan(path: Path, plan: QueryPlan) -> Path:
    """Leave a driver its plan, with the head before it. Raises InvalidOperator when the user's code in it cannot be
    pickled."""
    head = PlanHead(
        plan.token,
        plan.harness,
        plan.node,
        plan.incarnation,
        plan.query.name,
        tuple(run.actor for run in plan.runs),
        plan.attaches,
        plan.stands_by,
        dict(plan.query.settings),
        dict(plan.query.secrets),
        tuple(run.folders.warehouse for run in plan.runs),
        Path.cwd(),
    )
    what = f"the query {plan.query.name!r}"
    return write_private(path, pickle.dumps(head) + pickled(plan, what, modules_only_here()))
