from __future__ import annotations

import pytest

from streamproof.harness.worlds.spark.queries.plan import (
    PythonSteps,
    changes_what_is_counted,
    is_shuffled,
    python_steps,
)

OURS = "MicroBatchScan[key#0, value#1, seq#2L, time#3L] (Python)"
IN_JAVA = "MicroBatchScan[key#0, value#1, seq#2L, time#3L] EventSource"
IN_STATE = f"""\
!FlatMapGroupsInPandasWithState count_words(key#0, value#1)#5, [value#1], state info [ checkpoint = file:/tmp/pandas ]
+- *(2) Sort [value#1 ASC NULLS FIRST], false, 0
   +- Exchange hashpartitioning(value#1, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=49]
      +- *(1) Project [key#0, value#1, seq#2L, time#3L, timestamp_millis(time#3L) AS timestamp#4]
         +- {OURS}
"""
BEFORE_STATE = f"""\
*(3) HashAggregate(keys=[pythonUDF0#7], functions=[count(1)])
+- StateStoreSave [pythonUDF0#7], state info [ checkpoint = file:/tmp/python/state ]
   +- Exchange hashpartitioning(pythonUDF0#7, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=49]
      +- *(1) HashAggregate(keys=[pythonUDF0#7], functions=[partial_count(1)])
         +- BatchEvalPython [first(value#1)#6], [pythonUDF0#7]
            +- {OURS}
"""
NOWHERE = f"*(1) Project [seq#2L, value#1]\n+- {OURS}\n"
FOR_EACH = (
    "WriteToDataSourceV2 MicroBatchWrite[epoch: 6, writer: org.apache.spark.sql.execution.streaming.sources."
    f"ForeachWrite$$anon$2@70c484fa]\n+- {OURS}\n"
)


PYTHON_SINK = (
    "WriteToDataSourceV2 MicroBatchWrite[epoch: 6, writer: org.apache.spark.sql.execution.datasources.v2.python."
    f"PythonStreamingWrite@70c484fa]\n+- {OURS}\n"
)
IN_ONE_BRANCH = f"""\
Union
:- HashAggregate(keys=[value#1], functions=[count(1)])
:  +- Exchange hashpartitioning(value#1, 2), ENSURE_REQUIREMENTS, [plan_id=49]
:     +- {OURS}
+- BatchEvalPython [first(value#1)#6], [pythonUDF0#7]
   +- {OURS}
"""
IN_PROCESSOR = IN_STATE.replace("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark")


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (IN_STATE, PythonSteps(anywhere=True, at_end=True, at_first=True)),
        (BEFORE_STATE, PythonSteps(anywhere=True, at_end=False, at_first=True)),
        (NOWHERE, PythonSteps(anywhere=False, at_end=False, at_first=True)),
        (FOR_EACH, PythonSteps(anywhere=True, at_end=True, at_first=True)),
        (PYTHON_SINK, PythonSteps(anywhere=True, at_end=True, at_first=True)),
        (IN_ONE_BRANCH, PythonSteps(anywhere=True, at_end=True, at_first=True)),
        (IN_PROCESSOR, PythonSteps(anywhere=True, at_end=True, at_first=True)),
    ],
    ids=["in its state", "before its state", "nowhere", "for each row", "in a sink", "in one branch", "in a processor"],
)
def test_a_plan_says_where_python_workers_run_code_of_the_users(plan: str, found: PythonSteps) -> None:
    assert python_steps(plan, own_source=False) == found


@pytest.mark.parametrize(
    ("plan", "found"),
    [(IN_STATE, True), (BEFORE_STATE, True), (IN_ONE_BRANCH, True), (NOWHERE, False), (FOR_EACH, False)],
    ids=["in its state", "before its state", "in one branch", "nowhere", "for each row"],
)
def test_a_plan_says_whether_rows_come_by_a_shuffle(plan: str, found: bool) -> None:
    assert is_shuffled(f"== Physical Plan ==\n{plan}\n") is found


def test_a_source_of_the_users_in_python_is_code_of_theirs() -> None:
    assert python_steps(NOWHERE, own_source=True) == PythonSteps(anywhere=True, at_end=True, at_first=True)


@pytest.mark.parametrize(
    ("plan", "at_first"),
    [(IN_STATE, False), (BEFORE_STATE, True), (NOWHERE, False), (FOR_EACH, True), (IN_ONE_BRANCH, False)],
    ids=["in its state", "before its state", "nowhere", "for each row", "in one branch"],
)
def test_where_no_python_reads_it_may_be_at_work_only_later(plan: str, at_first: bool) -> None:
    """As of a source in Java, whose tasks end first, and have no Python worker that could die."""
    told = f"== Physical Plan ==\n{plan.replace(OURS, IN_JAVA)}\n"
    assert python_steps(told, own_source=True).at_first is at_first


COUNTS = "~Aggregate [w#1L], [w#1L, avg(id#0L) AS m#6]\n+- ~Filter (id#0L > 2)\n   +- ~Rows"


def above(step: str, counts: str = COUNTS) -> str:
    first, *rest = counts.splitlines()
    return "\n".join([step, f"+- {first}", *(f"   {line}" for line in rest)])


@pytest.mark.parametrize(
    ("plan", "changes"),
    [
        (COUNTS, False),
        (above("~Project [w#1L, (m#6 + 1.0) AS n#7]"), False),
        (above("~Repartition 2, true", above("~SubqueryAlias t")), False),
        (above("~Filter <lambda>(m#6)#15"), True),
        (above("~MapInPandas some(w#1L, m#6)#9, [w#10L, m#11], false"), True),
        (above("MapInArrow some(w#1L, m#6)#9, [w#10L, m#11], false"), True),
        (above("~Project [w#1L, x#17]", above("~Generate explode(array(m#6, m#6)), false, [x#17]")), True),
        (f"{above('~Join Inner, (w#1L = w#8L)').replace('+- ~Agg', ':- ~Agg')}\n+- Range (0, 3, step=1)", True),
        (f"~Join RightOuter, (w#8L = w#1L)\n:- Range (0, 3)\n{above('', COUNTS).strip()}", True),
        ("~Aggregate [w#1L], [w#1L]\n+- ~Join Inner, (w#1L = w#8L)\n   :- ~Rows\n   +- Range (0, 3, step=1)", False),
        (above("~Union false, false"), True),
    ],
    ids=[
        "nothing above",
        "another column",
        "rows elsewhere",
        "a filter in Python",
        "pandas",
        "arrow",
        "explode",
        "a join",
        "a join from its right",
        "a join below",
        "a union",
    ],
)
def test_a_plan_says_whether_rows_of_an_aggregate_become_more_or_fewer(plan: str, changes: bool) -> None:
    assert changes_what_is_counted(plan) is changes
