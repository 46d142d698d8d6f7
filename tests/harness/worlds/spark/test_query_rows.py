"""Rows of Spark's are recorded as texts that are equal when the rows are."""

from __future__ import annotations

import struct
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    Geography,
    Geometry,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantVal,
    YearMonthIntervalType,
)

from query_histories import Given, query_history
from streamproof.harness.contracts.query import Query
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.events import Event
from streamproof.harness.judging.collation import seen
from streamproof.harness.judging.exactness import same_value
from streamproof.harness.judging.references import DRIVER, REFERENCES, SINK, batch_of_row, collate_references
from streamproof.harness.judging.shapes import OutputMode, OutputShape, keyed
from streamproof.harness.recording.history import Drained, History, Stamp
from streamproof.harness.recording.records import Delivered, Ended, Stamped
from streamproof.harness.worlds.spark.queries.row_values import canonical_row
from streamproof.harness.worlds.spark.queries.rows import canonical_rows, canonical_table, check_schema, row_text


class CelsiusType(UserDefinedType):
    @classmethod
    def sqlType(cls) -> DataType:
        return LongType()

    @classmethod
    def module(cls) -> str:
        return __name__

    def serialize(self, obj: Any) -> int:
        return obj.degrees  # type: ignore[no-any-return]

    def deserialize(self, datum: Any) -> Any:
        return Celsius(datum)


@dataclass(frozen=True)
class Celsius:
    degrees: int
    __UDT__ = CelsiusType()


APPEND = Query(str, name="q")
UPDATE = Query(str, name="q", mode=OutputMode.UPDATE, key=("user",))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.builds(lambda a, b: Row(a=a, b=b), inner, inner),
    max_leaves=6,
)
ROWS = st.builds(lambda user, n, more: Row(user=user, n=n, more=more), st.text(), st.integers(0, 5), VALUES)


@given(st.lists(ROWS, max_size=8), st.randoms())
def test_the_order_in_which_rows_come_does_not_matter(rows: list[Row], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    assert canonical_rows(APPEND, rows, 3) == canonical_rows(APPEND, shuffled, 3)
    assert canonical_table(APPEND, rows) == canonical_table(APPEND, shuffled)
    assert sum(event.value for event in canonical_rows(APPEND, rows, 3)) == len(rows)  # type: ignore[misc]


@given(st.lists(ROWS, max_size=8, unique_by=lambda row: row.user))
def test_rows_have_the_keys_that_the_judge_finds_in_them(rows: list[Row]) -> None:
    found = {event.key: event.value for event in canonical_rows(UPDATE, rows, 3)}
    wanted = dict(keyed(msgspec.json.decode(row_text(UPDATE, row)), UPDATE.key) for row in rows)
    assert found.keys() == wanted.keys()
    assert all(same_value(found[key], wanted[key]) for key in wanted)


@given(st.lists(ROWS, min_size=1, max_size=4, unique_by=lambda row: row.user), st.integers(0, 99))
def test_two_runs_that_give_the_same_rows_agree_whatever_is_in_them(rows: list[Row], batch: int) -> None:
    for query in (APPEND, UPDATE):
        records = [
            record
            for sink in (*REFERENCES, SINK)
            for record in (
                Delivered(sink, "q", 1, 0, canonical_rows(query, rows, batch)),
                Ended(sink if sink in REFERENCES else DRIVER, 1, {"source": [1]}),
            )
        ]
        history = History([Stamped(0, record) for record in records], [Drained(Stamp(1))])
        collation = collate_references(history, query.shape)
        assert collation.unjudgeable == ""
        shown = (collation.lost_output, collation.phantoms, collation.conflicting_outputs, collation.duplicate_outputs)
        assert seen(*shown) == ()


@pytest.mark.parametrize("other", [None, 0.0, float("inf"), float("-inf"), "NaN", {}])
def test_a_number_that_is_none_is_no_other_value(other: Any) -> None:
    nan = Row(user="a", n=float("nan"))
    assert row_text(APPEND, nan) == '{"n":{"$float":"NaN"},"user":"a"}' != row_text(APPEND, Row(user="a", n=other))
    assert canonical_rows(UPDATE, [nan], 0) == [Event("q", 0, "a", {"$float": "NaN"}, 0)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("inf"), '{"$float":"Infinity"}'),
        (float("-inf"), '{"$float":"-Infinity"}'),
        (-0.0, "-0.0"),
        (Decimal("1.10"), '{"$decimal":"1.1"}'),
        (Decimal("0E-18"), '{"$decimal":"0"}'),
        (Decimal("-1E+3"), '{"$decimal":"-1000"}'),
        (Decimal("0.1234567890123456789012345678901234567"), '{"$decimal":"0.1234567890123456789012345678901234567"}'),
        (date(2026, 1, 2), '{"$date":"2026-01-02"}'),
        (time(3, 4, 5, 6), '{"$time":"03:04:05.000006"}'),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), '{"$timestamp":"2026-01-02T03:04:05.000006Z"}'),
        (
            datetime(2026, 1, 2, 5, 4, 5, 6, timezone(timedelta(hours=2))),
            '{"$timestamp":"2026-01-02T03:04:05.000006Z"}',
        ),
        (datetime(2026, 1, 2, 3, 4, 5), '{"$timestamp_ntz":"2026-01-02T03:04:05"}'),
        (timedelta(days=-2, microseconds=7), '{"$interval":"-2 days, 0:00:00.000007"}'),
        (bytearray(b"\x00\xff"), '{"$binary":"AP8="}'),
        (Row(b=1, a=[Row(c=None)]), '{"a":[{"c":null}],"b":1}'),
        (Row(**{"$date": "2026-01-02"}), '{"$struct":{"$date":"2026-01-02"}}'),
        ({"y": 1, "x": float("nan")}, '{"$map":[["x",{"$float":"NaN"}],["y",1]]}'),
        ({1: "a"}, '{"$map":[[1,"a"]]}'),
        ({"1": "a", 1: "b"}, '{"$map":[["1","a"],[1,"b"]]}'),
        ({Row(a=1): {b"x": None}}, '{"$map":[[{"a":1},{"$map":[[{"$binary":"eA=="},null]]}]]}'),
        (
            VariantVal.parseJson('{"b": 1.10, "a": ["NaN", 1e0]}'),
            '{"$variant":{"a":["NaN",1.0],"b":{"$decimal":"1.1"}}}',
        ),
        (VariantVal.parseJson('{"$date": 1}'), '{"$variant":{"$struct":{"$date":1}}}'),
        (Geometry(b"\x01", 4326), '{"$geometry":[4326,"AQ=="]}'),
        (Geography(b"\x01", 4326), '{"$geography":[4326,"AQ=="]}'),
        (Celsius(3), '{"$udt":3}'),
    ],
)
def test_what_spark_has_is_written_in_one_way(value: Any, text: str) -> None:
    assert row_text(APPEND, Row(v=value)) == f'{{"v":{text}}}'


def test_what_cannot_be_recorded_is_the_querys_mistake() -> None:
    with pytest.raises(InvalidOperator, match="cannot be recorded"):
        row_text(APPEND, Row(v=object()))


def same(one: Any, other: Any) -> bool:
    """Whether these are the same value of one of Spark's kinds: to a consumer, not to Python."""
    kinds = {bytearray: bytes}
    kind = kinds.get(type(one), type(one))
    if kind is not kinds.get(type(other), type(other)):
        return False
    if kind is float:
        return (one != one and other != other) or struct.pack("d", one) == struct.pack("d", other)
    if kind is datetime:
        return (one.tzinfo is None) == (other.tzinfo is None) and bool(one == other)
    if kind is Row:
        fields = [dict(zip(getattr(row, "__fields__", ()), row, strict=True)) for row in (one, other)]
        return fields[0].keys() == fields[1].keys() and all(
            same(fields[0][name], fields[1][name]) for name in fields[0]
        )
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    if kind is dict:
        left = list(other.items())
        for pair in one.items():
            place = next((n for n, found in enumerate(left) if all(map(same, pair, found))), None)
            if place is None:
                return False
            del left[place]
        return not left
    return bool(one == other)


def of_few(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


TEXTS = ("", "a", "1", "1.0", "1.1", "NaN", "null", "true", "2026-01-02", "2026-01-02T00:00:00", "eA==", "$float", "[]")
LEAVES = (
    of_few(None, True, False, *TEXTS)
    | of_few(0, 1, -1, 2**63 - 1, 0.0, -0.0, 1.0, 1e22, float("nan"), float("inf"), float("-inf"))
    | of_few(Decimal("1"), Decimal("1.1"), Decimal("1.10"), Decimal("0E-18"), Decimal("0"), Decimal("1E+2"))
    | of_few(
        b"", bytearray(b"x"), b"x", b"1", date(2026, 1, 2), time(), time(1), timedelta(), timedelta(1), timedelta(-1)
    )
    | of_few(datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, 0, 0, 0, 1))
    | of_few(datetime(2026, 1, 2, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 1, 2, 2, tzinfo=UTC))
)
NAMES = of_few("a", "b", "A", "$float", "$map", "$struct")
HASHED = LEAVES.filter(lambda value: not isinstance(value, bytearray))
KEYS = HASHED | st.builds(lambda name, value: Row(**{name: value}), NAMES, HASHED)
ANY: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(NAMES, inner, max_size=2).map(lambda fields: Row(**fields))
        | st.dictionaries(KEYS, inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=600, deadline=None)
@given(ANY, ANY)
def test_two_values_are_one_record_where_they_are_the_same_and_nowhere_else(one: Any, other: Any) -> None:
    texts = [row_text(APPEND, Row(v=value)) for value in (one, other)]
    assert (texts[0] == texts[1]) == same(one, other)
    assert msgspec.json.decode(texts[0]).keys() == {"v"}


@given(LEAVES, LEAVES)
def test_two_keys_are_one_where_they_are_the_same_value_of_a_column(one: Any, other: Any) -> None:
    if one is None or other is None or type(one) is type(other):
        found = {canonical_rows(UPDATE, [Row(user=key, n=1)], 0)[0].key for key in (one, other)}
        assert (len(found) == 1) == same(one, other)


@given(st.lists(ANY, min_size=2, max_size=4))
def test_equal_rows_are_counted_and_others_told_apart(values: list[Any]) -> None:
    rows = [Row(v=value) for value in (*values, values[0])]
    distinct = [v for place, v in enumerate(values) if not any(same(v, earlier) for earlier in values[:place])]
    table = canonical_table(APPEND, rows)
    assert len(table) == len(distinct)
    assert sum(table.values()) == len(rows)
    assert table[row_text(APPEND, rows[0])] == 1 + sum(same(value, values[0]) for value in values)


def test_an_hour_that_comes_twice_is_two_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark gives an instant in the time zone of the process."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    clock.tzset()
    try:
        instants = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]
        seen = [instant.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None) for instant in instants]
        assert seen[0] == seen[1], "as Python compares them"
        schema = StructType([StructField("t", TimestampType())])
        texts = [row_text(APPEND, Row(t=value), schema) for value in seen]
    finally:
        monkeypatch.undo()
        clock.tzset()
    assert texts == [f'{{"t":{{"$timestamp":"2026-10-25T0{hour}:30:00Z"}}}}' for hour in (0, 1)]
    local = StructType([StructField("t", TimestampNTZType())])
    assert row_text(APPEND, Row(t=seen[0]), local) == '{"t":{"$timestamp_ntz":"2026-10-25T02:30:00"}}'


def test_the_schema_reaches_what_is_within() -> None:
    inner = StructType([StructField("t", TimestampType())])
    schema = StructType(
        [
            StructField("m", MapType(StringType(), ArrayType(inner))),
            StructField("c", CelsiusType()),
            StructField("n", NullType()),
        ]
    )
    instant = datetime(2026, 1, 2, tzinfo=UTC).astimezone().replace(tzinfo=None)
    found = canonical_row(Row(m={"k": [Row(t=instant)]}, c=Celsius(7), n=None), schema)
    assert found["m"] == {"$map": [["k", [{"t": {"$timestamp": "2026-01-02T00:00:00Z"}}]]]}
    assert (found["c"], found["n"]) == ({"$udt": 7}, None)


TWICE = Row("a", "b", "a")(1, 2, 3)


@pytest.mark.parametrize("row", [TWICE, Row(s=TWICE), Row(s=[{"k": TWICE}]), Row(s={TWICE: 1})])
def test_a_row_with_a_name_twice_is_refused_and_never_loses_a_column(row: Row) -> None:
    for query in (APPEND, UPDATE):
        with pytest.raises(InvalidOperator, match=r"name 'a'; give one of them another name"):
            row_text(query, row)


def struct_of(*names: str) -> StructType:
    return StructType([StructField(name, IntegerType()) for name in names])


NESTED: list[Callable[[DataType], DataType]] = [
    lambda kind: kind,
    ArrayType,
    lambda kind: MapType(StringType(), kind),
    lambda kind: MapType(kind, StringType()),
    lambda kind: ArrayType(StructType([StructField("inner", kind)])),
]


def test_a_schema_with_a_column_twice_is_refused_before_there_is_a_row() -> None:
    with pytest.raises(InvalidOperator, match=r"two columns of the name 'n'; .*\.alias"):
        check_schema(APPEND, struct_of("n", "user", "n"))
    # Spark cannot select one of these by its name; a record has both.
    check_schema(APPEND, struct_of("user", "User"))
    assert canonical_row(Row("user", "User")(1, 2)) == {"user": 1, "User": 2}


@pytest.mark.parametrize("nest", NESTED)
def test_so_is_a_struct_with_a_field_twice_wherever_it_is(nest: Callable[[DataType], DataType]) -> None:
    check_schema(APPEND, StructType([StructField("s", nest(struct_of("a", "b")))]))
    with pytest.raises(InvalidOperator, match=r"struct 's(\.inner)?' has two fields of the name 'a'"):
        check_schema(APPEND, StructType([StructField("s", nest(struct_of("a", "a")))]))


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (YearMonthIntervalType(), "cast it to a string"),
        (CalendarIntervalType(), "cast it to a string"),
        (MapType(ArrayType(IntegerType()), IntegerType()), "make them texts"),
        (MapType(StructType([StructField("a", ArrayType(IntegerType()))]), IntegerType()), "make them texts"),
    ],
)
def test_what_pyspark_cannot_collect_is_refused_with_what_to_do(kind: DataType, advice: str) -> None:
    with pytest.raises(InvalidOperator, match=f"'s.t' .*{advice}"):
        check_schema(APPEND, StructType([StructField("s", StructType([StructField("t", kind)]))]))


def test_rows_carry_their_batch() -> None:
    assert {batch_of_row(event.seq) for event in canonical_rows(APPEND, [Row(v=1), Row(v=2)], 7)} == {7}
    # As hand-made histories have them.
    history = query_history(OutputShape(OutputMode.APPEND), [Given(0, [{"v": 1}])], [Given(0, [{"v": 1}])])
    assert collate_references(history, OutputShape(OutputMode.APPEND)).unjudgeable == ""


def test_a_text_with_half_a_surrogate_pair_is_recorded_and_is_no_other_text() -> None:
    query = Query(str, "q")
    texts = ["\ud800", "\udfff", "\\ud800", '{"$text":"\\\\ud800"}', "\U0001f600"]
    recorded = canonical_table(query, [Row(word=text, more=[{text: text}]) for text in texts])
    assert len(recorded) == len(texts)
    assert all(msgspec.json.decode(row) for row in recorded)
    (event,) = canonical_rows(Query(str, "q", mode=OutputMode.UPDATE, key=("word",)), [Row(word="\ud800", n=1)], 0)
    assert msgspec.msgpack.encode(event)


def test_a_column_with_half_a_surrogate_pair_in_its_name_is_the_users_mistake() -> None:
    with pytest.raises(InvalidOperator, match="surrogates not allowed"):
        canonical_table(Query(str, "q"), [Row(**{"\ud800": 1})])
