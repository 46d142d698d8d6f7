"""Where a campaign tries no crash, found before it begins: crash points that nothing comes to, effects that are not
seen, messages that are left out. Each is said in the certificate, or leaves its claims open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..contracts.query import Query
from ..core.addresses import DRIVER, TASK, Point, Side
from ..core.errors import MissingTool
from ..core.wording import counted
from ..crash_points.inside_python.own_clock import functions_that_ask_the_time
from ..crash_points.inside_python.own_errors import functions_that_look_away
from ..crash_points.inside_python.own_lines import own_data_sources
from ..crash_points.inside_python.own_memory import functions_that_remember
from ..crash_points.inside_python.own_numbers import functions_that_go_by_numbers
from ..crash_points.inside_python.own_packages import packages_in_c
from ..crash_points.inside_python.own_threads import functions_that_work_beside
from ..crash_points.inside_python.own_whereabouts import functions_that_go_by_where_they_run
from ..crash_points.inside_python.watching import TIMES
from ..crash_points.inside_spark.agent import fetch_agent
from ..crash_points.inside_spark.checking import check_rules
from ..crash_points.inside_spark.versions import EVERY_BATCH, supported
from ..install.spark_choice import chosen_version
from ..judging.result_tables import equal_rows
from ..recording.history import History
from ..recording.records import BatchDone, Stamped
from ..worlds.spark.queries.points import OF_THE_SOURCE
from .attempts import Attempt
from .campaign_state import CampaignState
from .conclusion import NotReached, Planned
from .loops_once import loops_that_went_round_once
from .messages import NO_MESSAGE, unreached, unseen, without_repeats
from .plan import Crash, Victim
from .profile import Profile
from .recovery_worker import RecoveryWorker
from .reference_runs import MOST_NAMED, other_spark
from .seen_outside import not_told_apart, unannounced_of
from .task_order import stages_with_own_code

AGAIN = (
    "Lines of the user's code that a batch executes more than {most} times: they were passed {times:,} times more, and "
    "a crash was tried at none of these."
)
NO_AGENT = "Crash points inside Spark, since the agent is missing: {why}"
NO_AGENT_OR_SOURCE = (
    "Crash points inside Spark, and those of streamproof's source ({points}), which Spark {version} needs in Java, "
    "since the agent is missing: {why}"
)
NEVER_CAME = (
    "Kinds of crash points inside Spark that no batch of the runs without failures came to, as it is where a query has "
    "no such step: {points}."
)
NEVER_FIRED = (
    "no batch of a run without failures came to it, and every batch has it: its rule does not fire on Spark {}"
)
BY_THE_CLOCK = (
    "A batch that is done again in another hour, or on another day, than it was begun: {functions} may ask for the "
    "time, and what goes by that (a folder of the day, a key) is the same in a recovery that comes soon. Take the time "
    "from the rows, or from what the first attempt has left. Nor, but for real kills, one that is done again within "
    "seconds, where what was begun a moment ago is left alone: crash states wait for their turn."
)
BY_NUMBERS = (
    "What goes by the number of a file (`st_ino`), by how many blocks it takes (`st_blocks`), by how many folders lie "
    "in one (`st_nlink`), or by what Spark counts (stages, tasks), in crash states: {functions} may. Files that were "
    "put back have other numbers, and may take more blocks or fewer, states in which a folder that nobody lists has "
    "more in it count as one, and a session in which one attempt follows the other goes on to count, where a driver "
    "that is started again begins anew: real kills alone show that."
)
BY_WHERE = (
    "A query that comes back elsewhere than it died: on a machine of another name, as a new pod has, in a container "
    "where its process has the number that the one before it had, or on a cluster of another size. {functions} may go "
    "by one of these, and here names and sizes stay the same, and a process's number is another each time. Let what a "
    "batch leaves be called by the batch alone."
)
BY_MEMORY = (
    "A query that fails and is started again in a driver that lives on, and a task that is tried again in a Python "
    "worker that does: {functions} may keep in the memory of their process what they go by, and what dies here is the "
    "process. Whoever remembers a batch, or a row, that has failed since passes over it: keep with the rows what says "
    "that they are there."
)
SIDE_BY_SIDE = (
    "What is done side by side in another order than here: {functions} may have threads, processes or a loop do "
    "several things at once, and which of two was done first in the runs without failures was first in every crash "
    "state. Who marks a batch beside its rows can die with the mark alone, be that never seen here: wait for the rows "
    "before."
)
ROUND_ONCE = (
    "Batches that are large enough for a loop of the query's own code to go round again: {loops} went round once at "
    "most in each call that was told of, in the runs without failures, and nobody has died between two rounds. Who "
    "does a batch in parts, and says with the first of them that it is there, loses the rest: have it go round more "
    "often, by larger batches (batch_events) or smaller parts."
)
LOOKS_AWAY = (
    "An error that the query's own code looks away from: {functions} may (`suppress`, `return_exceptions`, work that "
    "is handed over and never asked for its result). What fails here dies, but for messages that are lost, and what a "
    "disk refuses where the victim `disk` is named: a job of Spark's that fails, or a library's error, would leave a "
    "batch that counts as done."
)
IN_C = (
    "What code in C ({packages}) does outside of the run's folders, where it is over by the query's next line: a file "
    "that it renames or takes away, or keeps in memory alone (/dev/shm), a connection that is opened and closed within "
    "one call. Python tells nobody of it, and no crash was placed in it. What it writes to a disk there is named "
    "`file ?`, but not once more where it is written over while the kernel still has it in memory. Nor is what such "
    "code stores in the run's files through a shared map of memory seen before the kernel writes it down."
)
NOT_TOLD_APART = (
    "What else the query's code does outside, beside its own source and stores without an address: {effects} may be "
    "one of these, or something else. A driver is killed around each such call; what is lost on the way there, or sent "
    "again, is not tried, and nobody empties it between runs. Say where each store is: Store(..., address=...)."
)
ONE_TASK = (
    "Batches of more than one task: the query's own code runs in tasks, and of {stages} stage it did so in one, since "
    "streamproof's source gives a batch in one partition. What one task has done and another has not, nothing shows: "
    "let the query have more of them, as by rows.repartition(2)."
)
IN_TURN = (
    "Tasks of a stage side by side, or in another order than here: with one task slot the first is over before the "
    "second begins, in every crash state, and what a later one has left where an earlier one has not, or two of them "
    "in part, real kills alone can show. Who has the last task say that the batch is there can lose what others have "
    "not written yet."
)
IN_TWO_ORDERS = (
    "Tasks of a stage side by side, or in orders other than the two that are tried here, of which one begins with the "
    "first partition and the other with the last: with one task slot one is over before the next begins, in every "
    "crash state, and what two of them have left in part, or of three or more one in the middle alone, real kills "
    "alone can show. Nor a second crash, while the query recovers, after a first one in the order that begins with the "
    "last: what recovers begins with the first partition."
)
EQUAL_ROWS = (
    "One of several equal rows that is lost where another of them is there once too often: the result without failures "
    "has {rows:,} rows that are equal to another, and nothing tells of which input each is. Keep in a column what does "
    "(a number, as `seq`), and name that in the key, as in Query(..., key=('seq',))."
)
ANY_ORDER = (
    "Rows of a batch that come in another order when it is done again: they have come by a shuffle, which promises "
    "none, and with one task slot they come as they did before. What the query's own code makes of a row's place (its "
    "number, the first so many, the last that comes) nothing shows: let it go by a key, or sort the rows."
)
BESIDE = (
    "What a Python data source does beside its tasks ({classes}): where it is made, commits and aborts, Spark runs it "
    "in a process in which, without the agent, no line is a crash point, and no effect outside of the run's folders is "
    "seen. Operations on files in these are crash points there, too."
)
IN_THE_BACKGROUND = (
    "What Spark does in the background, of a query that has run for longer: snapshots of its state, and the removal of "
    "versions of it and of log entries that are needed no more. That is switched off in crash states, as it would "
    "change them while they are looked at, and runs on a cluster are mostly over before it begins, after a minute."
)
NEVER_PASSED = "no batch of a run without failures calls {method}: check its name, and that the agent is there"


def watches_inside(state: CampaignState, query: Query) -> bool:
    """Fetch the agent, and say whether there are crash points inside Spark."""
    spark = supported(chosen_version(query.spark))
    try:
        # A method of the user's may be in jars that only its session has.
        check_rules(spark, fetch_agent(), spark=other_spark(query))
    except MissingTool as error:
        lost = sorted({str(hook.point) for hook in spark.hooks} & {str(point) for point in OF_THE_SOURCE})
        if lost and query.source is None:
            said = NO_AGENT_OR_SOURCE.format(points=", ".join(lost), version=spark.number, why=error)
        else:
            said = NO_AGENT.format(why=error)
        state.not_covered.append(said)
        return False
    return True


def note_unpassed_hooks(state: CampaignState, query: Query, attempt: Attempt) -> None:
    """A point that the user has named, and that nothing passes, is not covered by what passes others."""
    passed = {one.address.key.partition("/")[2] for one in attempt.passed if one.address.point is Point.USER}
    for name, method in query.hooks.items():
        if name not in passed:
            crash = Crash(Point.USER, Side.BEFORE, f"0/{name}", DRIVER, Victim.DRIVER, 0, ())
            state.not_reached.append(NotReached(Planned(crash), NEVER_PASSED.format(method=method)))


def note_unpassed_points(state: CampaignState, query: Query, attempts: Sequence[Attempt]) -> None:
    """A rule that matches may still never fire."""
    spark = supported(chosen_version(query.spark))
    known = {hook.point for hook in spark.hooks} - (OF_THE_SOURCE if query.source is not None else set())
    missing = known - {one.address.point for attempt in attempts for one in attempt.passed}
    for point in sorted(missing & EVERY_BATCH):
        crash = Crash(point, Side.BEFORE, "0", DRIVER, Victim.DRIVER, 0, ())
        state.not_reached.append(NotReached(Planned(crash), NEVER_FIRED.format(spark.number)))
    if others := sorted(missing - EVERY_BATCH):
        state.not_covered.append(NEVER_CAME.format(points=", ".join(others)))


def note_background(state: CampaignState, attempt: Attempt) -> None:
    """Where the query has state."""
    if any(one.address.point is Point.STATE_COMMIT for one in attempt.passed):
        state.not_covered.append(IN_THE_BACKGROUND)


def note_watched(state: CampaignState, attempts: Sequence[Attempt]) -> None:
    """Those without failures were; and how often they passed lines of which no more is noted."""
    state.watched += attempts
    state.not_covered += passed_too_often(attempts)


def passed_too_often(attempts: Sequence[Attempt]) -> list[str]:
    """That lines were, in one sentence at most."""
    times = unannounced_of(attempts)
    return [AGAIN.format(times=times, most=TIMES)] if times else []


def note_tasks(state: CampaignState, attempt: Attempt, in_both_orders: bool) -> None:
    """A sink that is whole by its tasks alone is tried only where there are several, and in the orders that they
    had."""
    stages = stages_with_own_code(attempt)
    several = any(len(stage.own) > 1 for stage in stages)
    if any(len(stage.own) == 1 for stage in stages):
        state.not_covered.insert(0, ONE_TASK.format(stages="some" if several else "each"))
    if several:
        state.not_covered.insert(0, IN_TWO_ORDERS if in_both_orders else IN_TURN)


def note_equal_rows(state: CampaignState, query: Query, references: Sequence[Stamped]) -> None:
    """Of rows that are equal, only how many there are can be compared."""
    if equal := equal_rows(History(references, ()), query.shape):
        state.not_covered.append(EQUAL_ROWS.format(rows=equal))


def note_order(state: CampaignState, query: Query, attempt: Attempt) -> None:
    """Whose sink goes on where the rows stopped that are there goes by their order."""
    done = (stamped.record for stamped in attempt.records)
    lines = [one.address for one in attempt.passed if one.address.point is Point.LINE]
    takes_rows = bool(lines) if query.write is not None else any(one.actor == TASK for one in lines)
    if takes_rows and any(isinstance(one, BatchDone) and one.shuffled for one in done):
        state.not_covered.append(ANY_ORDER)


def note_data_sources(state: CampaignState, query: Query) -> None:
    """Where the agent is missing, Spark plans and commits a Python data source in workers that nobody follows."""
    state.not_covered[:0] = beside_data_sources(query)


def beside_data_sources(query: Query) -> list[str]:
    """The same, in one sentence at most."""
    classes = own_data_sources(query)
    return [BESIDE.format(classes=", ".join(classes[:MOST_NAMED]))] if classes else []


def note_clock(state: CampaignState, query: Query) -> None:
    """No recovery waits for the next day."""
    if functions := functions_that_ask_the_time(query):
        state.not_covered.append(BY_THE_CLOCK.format(functions=some_of(functions, "more function")))


def note_numbers(state: CampaignState, query: Query) -> None:
    """What a crash state has not as a death leaves it, and nobody can give it."""
    if functions := functions_that_go_by_numbers(query):
        state.not_covered.append(BY_NUMBERS.format(functions=some_of(functions, "more function")))


def note_whereabouts(state: CampaignState, query: Query) -> None:
    """Everything that dies here comes back on the same machine."""
    if functions := functions_that_go_by_where_they_run(query):
        state.not_covered.append(BY_WHERE.format(functions=some_of(functions, "more function")))


def note_memory(state: CampaignState, query: Query) -> None:
    """Nothing fails here in a process that lives on, but where a disk is asked to refuse."""
    if functions := functions_that_remember(query):
        state.not_covered.append(BY_MEMORY.format(functions=some_of(functions, "more function")))


def note_errors(state: CampaignState, query: Query) -> None:
    """A handler with lines of its own is among the lines that were never run."""
    if functions := functions_that_look_away(query):
        state.not_covered.append(LOOKS_AWAY.format(functions=some_of(functions, "more function")))


def note_side_by_side(state: CampaignState, query: Query) -> None:
    """A run shows one order of what threads do."""
    if functions := functions_that_work_beside(query):
        state.not_covered.insert(0, SIDE_BY_SIDE.format(functions=some_of(functions, "more function")))


def note_loops(state: CampaignState, query: Query) -> None:
    """What is done in one part has no gap that the next one would leave. Asked once all that has no failure was
    watched."""
    if loops := loops_that_went_round_once(query, state.watched):
        state.not_covered.insert(0, ROUND_ONCE.format(loops=some_of(loops, "more loop")))


def note_code_in_c(state: CampaignState, query: Query) -> None:
    """What a package does without Python is seen in the run's folders alone, and elsewhere in part."""
    state.not_covered[:0] = code_in_c(query)


def code_in_c(query: Query) -> list[str]:
    """The same, in one sentence at most."""
    packages = packages_in_c(query)
    return [IN_C.format(packages=some_of(packages, "more package"))] if packages else []


def some_of(names: Sequence[str], more: str) -> str:
    """The first few, and how many more."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {counted(rest, more)}" if rest > 0 else "")


def note_messages(state: CampaignState, query: Query, workers: Sequence[RecoveryWorker], profile: Profile) -> Profile:
    """What is not seen of the stores outside, or is alike so often that it is not tried each time: what is left to be
    tried."""
    state.not_covered += unseen(query, [worker.relay.seen for worker in workers])
    for store in unreached(query, [worker.relay.seen for worker in workers]):
        crash = Crash(Point.MESSAGE, Side.BEFORE, f"0/{store}", DRIVER, Victim.DRIVER, 0, ())
        state.not_reached.append(NotReached(Planned(crash), NO_MESSAGE.format(store=store)))
    maybe_its_own = not_told_apart(query, state.watched)
    if maybe_its_own:
        named = some_of([str(one) for one in maybe_its_own], "more effect")
        state.not_covered.append(NOT_TOLD_APART.format(effects=named))
    kept, left_out = without_repeats(profile.passed)
    state.not_covered += left_out
    return replace(profile, passed=kept)
