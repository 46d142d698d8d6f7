"""Records survive being written: whole, cut short, and sealed; altered ones are refused."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resealing import seal_anew
from streamproof.harness.core.errors import DamagedHistory, InvalidOperator, UnknownHistoryVersion
from streamproof.harness.core.events import Event
from streamproof.harness.recording import sealed
from streamproof.harness.recording.framed import FramedRecords
from streamproof.harness.recording.frames import FrameWriter, read_frames
from streamproof.harness.recording.history import History, of
from streamproof.harness.recording.records import (
    CheckpointDurable,
    CheckpointTaken,
    Delivered,
    EmptyBatch,
    Ended,
    InSync,
    Kept,
    Offered,
    Opened,
    Promoted,
    Refused,
    Restored,
    Stamped,
    Started,
    Taken,
)
from streamproof.harness.recording.sealed import SealedRecords
from streamproof.harness.recording.sealing import is_sealed, read_sealed, seal

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
numbers = st.integers(0, 2**62)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def some_events(draw: st.DrawFn, source: str) -> list[Event]:
    count = draw(st.integers(1, 4))
    return [
        Event(source, draw(numbers), draw(names), draw(values), draw(st.integers(-(2**62), 2**62)))
        for _ in range(count)
    ]


@st.composite
def deliveries(draw: st.DrawFn) -> Delivered:
    rows = draw(some_events(draw(names)))
    return Delivered(draw(names), draw(names), draw(numbers), draw(numbers), rows)


@st.composite
def offers(draw: st.DrawFn) -> Offered:
    source = draw(names)
    return Offered(source, draw(some_events(source)))


others = st.one_of(
    st.builds(Started, names, numbers, st.none() | st.tuples(numbers, numbers), numbers, numbers, numbers),
    st.builds(Restored, names, numbers, st.tuples(numbers, numbers), numbers),
    st.builds(InSync, names, numbers),
    st.builds(Promoted, names, numbers),
    st.builds(Opened, names, numbers, names, numbers, numbers, numbers),
    st.builds(Taken, names, numbers, names, numbers, numbers, numbers, numbers),
    st.builds(CheckpointTaken, names, numbers, numbers),
    st.builds(CheckpointDurable, names, numbers, numbers),
    st.builds(Refused, names, numbers, names, numbers, names),
    st.builds(Ended, names, numbers, st.dictionaries(names, st.lists(numbers, max_size=2), max_size=3)),
    st.builds(EmptyBatch, names, names, numbers, numbers),
    st.builds(Kept, names, numbers, st.dictionaries(names, values, max_size=3)),
)
histories = st.lists(st.builds(Stamped, numbers, deliveries() | offers() | others), max_size=6)


def written(records: list[Stamped], folder: Path) -> Path:
    path = folder / "records.frames"
    writer = FrameWriter(path)
    for record in records:
        writer.append(record)
    writer.close()
    return path


@settings(deadline=None)
@given(histories, st.data())
def test_any_beginning_of_a_file_of_frames_reads_as_a_beginning_of_the_records(
    records: list[Stamped], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        path = written(records, Path(folder))
        whole = path.read_bytes()
        assert list(read_frames(path)) == records
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        read = list(read_frames(path))
        assert read == records[: len(read)]


@settings(deadline=None)
@given(histories.filter(bool), st.data())
def test_an_altered_frame_is_refused_or_ends_the_file(records: list[Stamped], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = written(records, Path(folder))
        whole = bytearray(path.read_bytes())
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(whole)
        with suppress(DamagedHistory, UnknownHistoryVersion):
            read = list(read_frames(path))
            assert read == records[: len(read)]
            assert len(read) < len(records)


@settings(deadline=None)
@given(histories)
def test_what_was_sealed_reads_back_the_same(records: list[Stamped]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        assert not is_sealed(folder)
        seal(records, folder)
        assert is_sealed(folder)
        assert read_sealed(folder) == records


@settings(deadline=None)
@given(histories, st.sets(st.sampled_from([Offered, Delivered, Taken, Kept, Started])), st.integers(1, 5))
def test_records_read_from_the_disk_are_those_that_were_sealed(
    records: list[Stamped], kinds: set[type], rows: int
) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed, "_ROWS", rows)
        seal(records, Path(name))
        read = SealedRecords(Path(name))
        assert (list(read), len(read), read == records) == (records, len(records), True)
        wanted = [stamped for stamped in records if isinstance(stamped.record, tuple(kinds))]
        if kinds:
            assert list(of(read, *kinds)) == list(of(records, *kinds)) == wanted
        for place in range(len(records)):
            assert (read[place], read[place - len(records)]) == (records[place], records[place])
        assert read[1:3] == records[1:3]
        assert list(History(read, []).offered()) == list(History(records, []).offered())
        delivered = list(of(records, Delivered))
        columns = list(read.delivered())
        assert [Stamped(*one) for some in columns for one in some.records(0, len(some.ends))] == delivered
        firsts = [first for some in columns for *_, first in some.firsts()]
        assert firsts == [min(row.seq for row in one.record.rows) for one in delivered]
        for some in columns:
            for channel, its in some.by_channel():
                mine = [one for one in some.records(0, len(some.ends)) if one[1].channel == channel]
                assert list(its.records(0, len(its.ends))) == mine
                assert list(its.records(1, len(its.ends))) == mine[1:]


@pytest.mark.parametrize("table", ["offered", "delivered", "steps"])
def test_a_sealed_table_that_was_altered_or_removed_is_refused(table: str, tmp_path: Path) -> None:
    seal([Stamped(1, Offered("s-0", [Event("s-0", 1, "k", 1, 1)]))], tmp_path)
    path = tmp_path / f"{table}.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DamagedHistory, match="altered after it was sealed"):
        read_sealed(tmp_path)
    path.unlink()
    with pytest.raises(DamagedHistory, match="is missing"):
        read_sealed(tmp_path)


def test_a_file_of_another_format_version_is_told_apart_from_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "records.frames"
    path.write_bytes(b"SPFRAME9")
    with pytest.raises(UnknownHistoryVersion, match="b'9'"):
        list(read_frames(path))
    path.write_bytes(b"anything")
    with pytest.raises(DamagedHistory, match="does not begin"):
        list(read_frames(path))


def test_a_value_that_no_record_can_hold_is_the_operators_mistake(tmp_path: Path) -> None:
    writer = FrameWriter(tmp_path / "records.frames")
    writer.append(Stamped(1, Offered("source-0", [Event("source-0", 1, "k", 1 << 63, 1)])))
    with pytest.raises(InvalidOperator, match="integers have 64 bits"):
        writer.append(Stamped(2, Offered("source-0", [Event("source-0", 2, "k", 1 << 64, 2)])))
    writer.close()
    assert [stamped.at for stamped in read_frames(tmp_path / "records.frames")] == [1]


def ended(count: int) -> list[Stamped]:
    return [Stamped(number, Ended("count-0", number, {"source-0": [1]})) for number in range(count)]


def test_records_that_are_still_written_are_read_as_they_were_when_somebody_began_to_look(tmp_path: Path) -> None:
    records, path = ended(6), tmp_path / "records.frames"
    writer = FrameWriter(path)
    for record in records[:4]:
        writer.append(record)
    writer.flush()
    looked = FramedRecords(path)
    for record in records[4:]:
        writer.append(record)
    writer.close()
    assert list(looked) == records[:4]
    assert looked == records[:4]
    assert list(of(looked, Ended)) == records[:4]
    assert FramedRecords(path) == records
    # A frame of which half was there.
    path.write_bytes(path.read_bytes()[:-3])
    assert FramedRecords(path) == records[:5]


@pytest.mark.parametrize("part", [slice(-1, None), slice(2, 5), slice(5, 2), slice(None, None, 2), slice(0, 99)])
def test_a_part_of_what_is_on_the_disk_is_that_part(part: slice, tmp_path: Path) -> None:
    records = ended(7)
    path = written(records, tmp_path)
    seal(records, tmp_path)
    assert list(FramedRecords(path)[part]) == records[part]
    assert list(SealedRecords(tmp_path)[part]) == records[part]


@pytest.mark.parametrize(
    ("column", "value"),
    [("value", None), ("value", "NaN"), ("value", "1e999"), ("value", "1, 2"), ("value", "{"), ("seq", None)],
)
def test_tables_that_hold_no_records_are_refused_whoever_sealed_them(
    column: str, value: object, tmp_path: Path
) -> None:
    seal([Stamped(1, Offered("s-0", [Event("s-0", 1, "k", 1, 1)]))], tmp_path)
    _sealed_anew(tmp_path, "offered", lambda rows: [{**rows[0], column: value}])
    with pytest.raises(DamagedHistory, match=r"the tables in .* cannot be read"):
        list(read_sealed(tmp_path))


def test_records_that_are_out_of_order_are_refused_whoever_sealed_them(tmp_path: Path) -> None:
    seal([Stamped(number, Ended("s-0", number, {})) for number in range(3)], tmp_path)
    _sealed_anew(tmp_path, "steps", lambda rows: rows[::-1])
    with pytest.raises(DamagedHistory, match="out of order"):
        list(read_sealed(tmp_path))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda rows: [{**rows[0], "value": "{"}, *rows[1:]], "cannot be read"),
        (lambda rows: [{**rows[0], "seq": None}, *rows[1:]], "cannot be read"),
        (lambda rows: rows[::-1], "out of order"),
        (lambda rows: [rows[2], rows[0]], "out of order"),
        (lambda rows: [rows[0], {**rows[1], "position": 7}, rows[2]], "not of one record"),
        (lambda rows: [rows[0], {**rows[1], "incarnation": 2}, rows[2]], "not of one record"),
    ],
    ids=["value", "number", "order", "order of records", "position", "incarnation"],
)
@pytest.mark.parametrize("rows", [1, 2, 16])
def test_columns_that_hold_no_records_are_refused(
    how: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    said: str,
    rows: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sealed, "_ROWS", rows)
    some = [[Event("a-0", 1, "k", 1, 1), Event("a-0", 2, "k", 2, 2)], [Event("a-0", 3, "k", 3, 3)]]
    records = [Delivered("s-0", "a-0>s-0", 1, 2 * place, events) for place, events in enumerate(some)]
    seal([Stamped(1, record) for record in records], tmp_path)
    assert [len(one.ends) for one in SealedRecords(tmp_path).delivered()]
    _sealed_anew(tmp_path, "delivered", how)
    with pytest.raises(DamagedHistory, match=said):
        list(SealedRecords(tmp_path).delivered())


def _sealed_anew(folder: Path, name: str, how: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    path = folder / f"{name}.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(how(table.to_pylist()), schema=table.schema), path)
    seal_anew(folder)
