"""The crash points of a query that a run watches: inside Spark, in its tasks and in the user's code.

Each incarnation of the judged driver has a script of its own, for driver and executors alike, which names the
incarnation. What they announce comes to the run server's loop, beside what the harness's own source and sink say.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from ....contracts.query import Query
from ....contracts.scenario import Scenario
from ....core.addresses import DRIVER, FINE_POINTS, QUERY_POINTS, TASK, TASK_POINTS, Moment, Point, Side
from ....core.errors import InvalidScenario, StorageFailed, Unsupported
from ....core.schedule import Fault
from ....core.wire import Endpoint
from ....crash_points.files.mounting import MountedFolder
from ....crash_points.inside_python.own_lines import own_data_sources
from ....crash_points.inside_python.user_points import points_environment
from ....crash_points.inside_python.watching import Watching, lines_environment, write_watching
from ....crash_points.inside_python.whose import whose_code
from ....crash_points.inside_spark.agent import find_agent
from ....crash_points.inside_spark.listener import HeldPoint, PointListener
from ....crash_points.inside_spark.rules import script
from ....crash_points.inside_spark.settings import agent_settings, with_options
from ....crash_points.inside_spark.versions import SUPPORTED, SparkVersion, own_hook, supported
from ....install.private_files import write_private
from ....install.spark_choice import chosen_version
from ..control.nodes import Nodes

OF_THE_SOURCE: Final = frozenset({Point.SOURCE_LATEST, Point.SOURCE_COMMIT, Point.SOURCE_PARTITIONS})
OWN: Final = OF_THE_SOURCE | {Point.STARTED, Point.SINK_WRITE}
"""Those of the harness's own ends, which say themselves when they come to them."""
INSIDE_SPARK: Final = QUERY_POINTS - OWN - FINE_POINTS - {Point.SOURCE_READ}

FILES: Final = "files"
"""Who says that somebody has come to an operation on a file."""
_OF_DRIVER: Final = "spark.driver.extraJavaOptions"
_OPTIONS: Final = {
    _OF_DRIVER: (INSIDE_SPARK | OF_THE_SOURCE) - TASK_POINTS,
    "spark.executor.extraJavaOptions": (INSIDE_SPARK & TASK_POINTS) | {Point.RENAME},
}
"""Whose threads come to which points."""


def _inside(spark: SparkVersion) -> frozenset[Point]:
    """The points of which Spark's threads say that they have come to them: also those of a source in Java."""
    return INSIDE_SPARK | OF_THE_SOURCE if spark.source_in_java else INSIDE_SPARK


def aimed_at(scenario: Scenario) -> frozenset[Point]:
    """The points that its faults wait for."""
    return frozenset(fault.trigger.point for fault in scenario.faults if isinstance(fault.trigger, Moment))


def check_points(scenario: Scenario) -> None:
    """Raises MissingTool for points inside Spark where there is no agent, Unsupported where this Spark's are not known,
    or it has not what the query needs, and InvalidScenario for points that the query does not come to, or not as the
    fault's target."""
    query = scenario.subject
    assert isinstance(query, Query)
    for fault in scenario.faults:
        if TASK in fault.targets:
            _check_task(fault)
        if isinstance(fault.trigger, Moment):
            _check_actor(fault, fault.trigger)
    aimed = aimed_at(scenario)
    if query.source is not None and aimed & OF_THE_SOURCE:
        raise InvalidScenario(
            f"{query.name} has a source of its own, which says nothing of {min(aimed & OF_THE_SOURCE)}"
        )
    if query.write is not None and Point.SINK_WRITE in aimed:
        raise InvalidScenario(f"{query.name} has a sink of its own, which says nothing of {Point.SINK_WRITE}")
    if Point.MESSAGE in aimed and not query.relayed:
        raise InvalidScenario(f"{query.name} has no store with an address, so that no message of it is seen")
    number = chosen_version(query.spark)
    spark = supported(number)
    for need in query.needs:
        if need in spark.lacks:
            newer = next(one.tried for one in SUPPORTED.values() if need not in one.lacks)
            raise Unsupported(f"{query.name} needs {need}, which Spark {number} has not: name another, as {newer}")
    if aimed & _inside(spark) or _beside_tasks(scenario):
        find_agent()


def _beside_tasks(scenario: Scenario) -> bool:
    """Whether a fault waits for a line that may be one of those that Spark runs for a driver beside it, as where a
    Python data source commits: the agent sees to it that these are followed."""
    query = scenario.subject
    assert isinstance(query, Query)
    moments = [fault.trigger for fault in scenario.faults if isinstance(fault.trigger, Moment)]
    of_driver = any(one.point is Point.LINE and one.actor == DRIVER for one in moments)
    return of_driver and bool(own_data_sources(query))


def _check_task(fault: Fault) -> None:
    if not isinstance(fault.trigger, Moment) or fault.trigger.actor != TASK:
        raise InvalidScenario(
            f"{fault}: which task is meant is known where one is held; say .at() a moment of a task, as in "
            "batch(3).state_committed"
        )


def _check_actor(fault: Fault, moment: Moment) -> None:
    either = {Point.RENAME, *FINE_POINTS}
    passes = either | (TASK_POINTS if moment.actor == TASK else frozenset(Point) - TASK_POINTS)
    if moment.point not in passes:
        raise InvalidScenario(f"{fault}: {moment.actor} never passes {moment.point}")


class PointWatch:
    """What one run is told of the points that the harness's own ends do not announce. Its methods are called in the run
    server's loop, but for `settings` and `environment`."""

    def __init__(self, scenario: Scenario, whole: bool, nodes: Nodes) -> None:
        """`whole`: all points are announced, not those alone that faults wait for."""
        aimed = aimed_at(scenario)
        query = scenario.subject
        assert isinstance(query, Query)
        self._spark = supported(chosen_version(query.spark))
        inside = _inside(self._spark)
        self._points = inside if whole else aimed & inside
        self._of_the_user = whole or bool(aimed & {Point.USER, Point.LINE})
        self._beside_tasks = _beside_tasks(scenario)
        hooks = query.hooks if self._of_the_user else {}
        self._own = [own_hook(name, method) for name, method in hooks.items()]
        self._moments = [fault.trigger for fault in scenario.faults if isinstance(fault.trigger, Moment)]
        lines = tuple((one.side, one.key) for one in self._moments if one.point is Point.LINE and one.key is not None)
        self._watching = Watching(whose_code(query), whole, lines if not whole else ())
        self._nodes = nodes
        self._listener: PointListener | None = None
        self._token = ""
        self._place: Endpoint = ("", 0)

    @property
    def needed(self) -> bool:
        return bool(self._points) or self._of_the_user

    async def listen(
        self, token: str, arrived: Callable[[HeldPoint], Awaitable[bytes | None]], files: bool = False
    ) -> None:
        """`files`: operations on files are to be announced, too."""
        if self.needed or files:
            self._token = token
            self._listener = PointListener((self._nodes.address, 0), token, arrived)
            self._place = await self._listener.start()

    def announce_files(self, files: MountedFolder, asks_before: bool) -> None:
        """Not in the loop. `asks_before`: each of them may be refused. Raises ProcessDied."""
        before = asks_before or any(one.point is Point.FILE and one.side is Side.BEFORE for one in self._moments)
        files.announce(self._place, self._token, FILES, 0, asks_before=before, others_live=True)

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()

    def settings(self, node: str, incarnation: int, given: Mapping[str, str]) -> dict[str, str]:
        """Spark's, for an incarnation of the query. Raises StorageFailed."""
        found: dict[str, str] = {}
        if self._points or self._own or self._beside_tasks:
            known = self._points & {hook.point for hook in self._spark.hooks}
            text = script(self._spark, self._place, self._token, node, incarnation, known, self._own)
            path = write_private(self._nodes.scratch / f"points.{incarnation}.btm", text.encode())
            ours = agent_settings(self._agent(), path.resolve())
            # The agent costs every start of a JVM some of its time.
            wanted = [name for name, points in _OPTIONS.items() if self._own or self._points & points]
            if self._beside_tasks and _OF_DRIVER not in wanted:
                wanted.append(_OF_DRIVER)
            found = with_options(given, {name: ours[name] for name in wanted})
        for name, value in self.environment(node, incarnation).items():
            found[f"spark.executorEnv.{name}"] = value
        return found

    def environment(self, node: str, incarnation: int) -> dict[str, str]:
        """Of a driver, for an incarnation of the query. Raises StorageFailed."""
        if not self._of_the_user:
            return {}
        points = points_environment(self._place, self._token, node, incarnation)
        if not self._watching:
            return points
        # Every node sees it there.
        path = (self._nodes.scratch / "lines.json").resolve()
        write_watching(path, self._watching)
        return {**points, **lines_environment(path)}

    def _agent(self) -> Path:
        """Where all nodes see it."""
        agent, here = find_agent(), self._nodes.scratch / "points.jar"
        if not here.exists():
            try:
                shutil.copyfile(agent, here)
            except OSError as error:
                raise StorageFailed(f"cannot copy {agent} to {here}: {error.strerror or error}") from error
        return here.resolve()
