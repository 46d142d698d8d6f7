"""What is read in the bytes of a connection to a store: the same requests and answers, however the bytes arrive."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.core.wire import Endpoint
from streamproof.harness.crash_points.outside.bursts import Bursts
from streamproof.harness.crash_points.outside.framing import Conversation, FramedPart, Unreadable
from streamproof.harness.crash_points.outside.http import Http, kind_of_path
from streamproof.harness.crash_points.outside.kafka import Kafka
from streamproof.harness.crash_points.outside.postgres import Postgres
from streamproof.harness.crash_points.outside.statements import kind_of_sql

STORE, RELAY = ("broker.example", 9092), ("127.0.0.1", 40_001)
Begun = tuple[int, str, bool]
"""After how many bytes, what, and whether it changes anything."""


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for begin, end in pairwise(places):
        if begin < end:
            yield data[begin:end]


def read(
    how: Callable[[bytes], Iterator[FramedPart]], chunks: Iterator[bytes]
) -> tuple[bytes, list[Begun], list[int], bytes]:
    """What was passed on, where requests begin, where answers end, and what was answered in the store's stead."""
    passed, reply, begun, ended = b"", b"", [], []
    for chunk in chunks:
        for part in how(chunk):
            if part.begins is not None:
                begun.append((len(passed), part.begins.name, part.begins.changes))
            if part.reply:
                reply += part.reply
            else:
                passed += part.data
            ended += [len(passed)] * part.ends
    return passed, begun, ended, reply


cuts = st.lists(st.integers(0, 10_000), max_size=40)


def by_any_pieces(
    make: Callable[[], Conversation], asked: bytes, answered: bytes, up: list[int], down: list[int]
) -> None:
    """All of both directions comes to the same, in whatever pieces."""
    whole, split = make(), make()
    for conversation in (whole, split):
        assert conversation.unread() == (b"", b"")
    assert read(split.asked, pieces(asked, up)) == read(whole.asked, iter([asked]))
    assert read(split.answered, pieces(answered, down)) == read(whole.answered, iter([answered]))
    assert whole.unread() == split.unread() == (b"", b"")


# PostgreSQL


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack(">i", len(body) + 4) + body


def query(text: str) -> bytes:
    return message("Q", text.encode() + b"\0")


def parsed(text: str, name: str = "") -> bytes:
    return message("P", name.encode() + b"\0" + text.encode() + b"\0\0\0")


def bound(name: str = "") -> bytes:
    return message("B", b"\0" + name.encode() + b"\0" + b"\0" * 6)


EXECUTE = message("E", b"\0" + b"\0" * 4)
SYNC, FLUSH = message("S"), message("H")
READY = message("Z", b"I")
DONE = message("C", b"OK\0")
SSL = struct.pack(">ii", 8, 80877103)
STARTUP_BODY = struct.pack(">i", 3 << 16) + b"user\0tester\0\0"
STARTUP = struct.pack(">i", len(STARTUP_BODY) + 4) + STARTUP_BODY
WELCOME = message("R", struct.pack(">i", 0)) + message("K", b"12345678") + READY


def names(asked: bytes) -> list[tuple[str, bool]]:
    conversation = Postgres()
    _, begun, _, _ = read(conversation.asked, iter([STARTUP + asked]))
    return [(name, changes) for _, name, changes in begun]


def ends(asked: bytes, answered: bytes) -> list[int]:
    """How many requests were answered after each message of the answer."""
    conversation = Postgres()
    list(conversation.asked(STARTUP))
    list(conversation.answered(WELCOME))
    list(conversation.asked(asked))
    return [part.ends for part in conversation.answered(answered)]


@given(cuts, cuts)
def test_postgres_is_read_the_same_in_any_pieces(up: list[int], down: list[int]) -> None:
    copied = message("d", b"1\tone\n") + message("c")
    asked = SSL + STARTUP + query("begin") + query("insert into lines values ('a;b')") + query("copy lines from stdin")
    asked += copied + parsed("select 1") + bound() + EXECUTE + SYNC + query("COMMIT") + message("X")
    one = DONE + READY
    answered = WELCOME + one + one + message("G", b"\0\0\0") + one + message("1") + message("2") + one + one
    by_any_pieces(Postgres, asked, answered, up, down)


def test_encryption_is_refused_in_the_servers_stead_and_the_server_never_hears_of_it() -> None:
    passed, _, _, reply = read(Postgres().asked, iter([SSL + STARTUP]))
    assert (passed, reply) == (STARTUP, b"N")


def test_statements_are_named_by_their_first_words() -> None:
    found = names(query("begin") + query("insert into a values (1)") + query("select * from a") + query("commit"))
    assert found == [("BEGIN", False), ("INSERT a", True), ("SELECT", False), ("COMMIT", True)]


def test_a_prepared_statement_is_known_by_its_name_whenever_it_is_executed() -> None:
    prepared = parsed("update a set n = $1", "s1") + SYNC
    again = bound("s1") + EXECUTE + SYNC
    assert names(prepared + again + again) == [("UPDATE a", True)] * 2


def test_what_was_prepared_unseen_may_change_anything() -> None:
    assert names(bound("elsewhere") + EXECUTE + SYNC) == [("unknown", True)]


def test_a_row_of_like_statements_in_one_exchange_is_one_request() -> None:
    insert = parsed("insert into a values ($1)") + bound() + EXECUTE
    commit = parsed("commit") + bound() + EXECUTE
    assert names(insert + insert + commit + insert + SYNC + insert + SYNC) == [
        ("INSERT a", True),
        ("COMMIT", True),
        ("INSERT a", True),
        ("INSERT a", True),
    ]


def test_an_answer_ends_where_the_server_is_ready_and_not_where_a_statement_is_done() -> None:
    insert = parsed("insert into a values ($1)") + bound() + EXECUTE
    commit = parsed("commit") + bound() + EXECUTE
    assert ends(query("commit"), DONE + READY) == [0, 1]
    assert ends(insert + commit + SYNC, DONE + DONE + READY) == [0, 0, 2]


def test_a_server_that_is_ready_at_its_start_has_answered_nothing() -> None:
    conversation = Postgres()
    list(conversation.asked(STARTUP + query("commit")))
    assert [part.ends for part in conversation.answered(WELCOME)] == [0, 0, 0]
    assert [part.ends for part in conversation.answered(DONE + READY)] == [0, 1]


def test_a_copy_that_is_asked_for_the_end_of_twice_is_answered_once() -> None:
    copy = parsed("copy a from stdin") + bound() + EXECUTE + SYNC
    conversation = Postgres()
    list(conversation.asked(STARTUP))
    list(conversation.answered(WELCOME))
    list(conversation.asked(copy))
    begins = list(conversation.answered(message("G", b"\0\0\0")))
    assert [part.needed for part in begins] == [True]
    list(conversation.asked(message("d", b"1\n") + message("c") + SYNC + query("commit")))
    assert [part.ends for part in conversation.answered(DONE + READY)] == [0, 1]
    assert [part.ends for part in conversation.answered(DONE + READY)] == [0, 1]


def test_who_asks_for_what_is_there_in_the_midst_of_an_exchange_gets_it() -> None:
    conversation = Postgres()
    list(conversation.asked(STARTUP))
    list(conversation.answered(WELCOME))
    list(conversation.asked(parsed("insert into a values (1)") + FLUSH))
    assert [part.needed for part in conversation.answered(message("1"))] == [True]


def test_what_is_no_postgres_is_not_read_as_if_it_were() -> None:
    conversation = Postgres()
    with pytest.raises(Unreadable):
        list(conversation.asked(b"GET / HTTP/1.1\r\n\r\n"))
    assert conversation.unread() == (b"GET / HTTP/1.1\r\n\r\n", b"")


@pytest.mark.parametrize(
    ("text", "name", "changes"),
    [
        ('insert into "Orders" values (1)', "INSERT Orders", True),
        ('insert into "a.b"."Orders" values (1)', "INSERT Orders", True),
        ('insert into "a.b" . orders values (1)', "INSERT orders", True),
        ("INSERT INTO public.orders VALUES (1)", "INSERT orders", True),
        ("/* who */ -- why\n delete from only orders", "DELETE orders", True),
        ("create unique index concurrently if not exists i on t (a)", "CREATE i", True),
        ("copy orders (a, b) from stdin", "COPY orders", True),
        ("copy orders to stdout", "COPY orders", False),
        ("with new as (insert into t values (1) returning a) select a from new", "WITH INSERT t", True),
        ("with one as (select 1) select * from one", "WITH", False),
        ("select count(*), max(seq) from t where a in (1, 2)", "SELECT", False),
        ("select add_to_total(3)", "SELECT", True),
        ("select * into copy from t", "SELECT", True),
        ("select 'insert into t', $$update t$$", "SELECT", False),
        ("begin; insert into t values (';'); commit", "INSERT t; COMMIT", True),
        ("begin; select 1", "BEGIN; SELECT", False),
        ("explain select 1", "EXPLAIN", False),
        ("explain analyze insert into t values (1)", "EXPLAIN INSERT t", True),
        ("end", "COMMIT", True),
        ("commit prepared 'x'", "COMMIT PREPARED", True),
        ("prepare transaction 'x'", "PREPARE", True),
        ("rollback", "ROLLBACK", False),
        ("set search_path to x", "SET", False),
        ("vacuum full", "VACUUM", True),
        (" ; ", "nothing", False),
    ],
)
def test_what_a_statement_is_called_and_whether_it_may_change_anything(text: str, name: str, changes: bool) -> None:
    assert kind_of_sql(text) == (name, changes)


# HTTP


def test_paths_are_named_without_what_names_one_thing_of_many() -> None:
    assert kind_of_path("/v1/orders/17/lines?x=1") == "/v1/orders/lines"
    assert kind_of_path("http://host:80/orders/9f86d081-884c-4d63-a159-ab4e7d3c3f5b") == "/orders"
    assert kind_of_path("/") == "/"


PUT = b"PUT /orders/17 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /orders HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n6;x=y\r\npedia \r\n"
CHUNKED += b"0\r\nTrailer: 1\r\n\r\n"
GET = b"GET /orders/17 HTTP/1.1\r\n\r\n"
HEAD = b"HEAD /orders HTTP/1.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
OF_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


@given(cuts, cuts)
def test_http_is_read_the_same_in_any_pieces(up: list[int], down: list[int]) -> None:
    asked = PUT + CHUNKED + GET + HEAD + PUT
    answered = GO_ON + OK + IN_CHUNKS + EMPTY + OF_HEAD + OK
    by_any_pieces(Http, asked, answered, up, down)


def test_http_requests_are_named_by_method_and_path_and_safe_ones_change_nothing() -> None:
    passed, begun, _, _ = read(Http().asked, iter([PUT + CHUNKED + GET]))
    assert passed == PUT + CHUNKED + GET
    assert begun == [
        (0, "PUT /orders", True),
        (len(PUT), "POST /orders", True),
        (len(PUT + CHUNKED), "GET /orders", False),
    ]


def test_http_answers_end_where_their_bodies_do() -> None:
    conversation = Http()
    list(conversation.asked(PUT + CHUNKED + HEAD + GET))
    answers = [OK, IN_CHUNKS, OF_HEAD, EMPTY]
    _, _, ended, _ = read(conversation.answered, iter([b"".join(answers)]))
    assert ended == [len(b"".join(answers[: n + 1])) for n in range(4)]


def test_a_client_that_waits_for_leave_to_send_a_body_is_given_it_at_once() -> None:
    conversation = Http()
    list(conversation.asked(PUT))
    assert [(part.needed, part.ends) for part in conversation.answered(GO_ON)] == [(True, 0)]


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    conversation = Http()
    list(conversation.asked(PUT))
    assert [part.ends for part in conversation.answered(b"HTTP/1.0 200 OK\r\n\r\nall of it")] == [0]
    assert [part.ends for part in conversation.ended()] == [1]
    assert list(conversation.ended()) == []


@pytest.mark.parametrize("strange", [b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_encrypted_or_newer_http_is_not_read(strange: bytes) -> None:
    conversation = Http()
    with pytest.raises(Unreadable):
        list(conversation.asked(strange))
    assert conversation.unread() == (strange, b"")


def test_after_an_upgrade_nothing_is_read_as_http() -> None:
    conversation = Http()
    list(conversation.asked(GET))
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    with pytest.raises(Unreadable):
        list(conversation.answered(upgrade + b"frames"))
    assert conversation.unread() == (b"", upgrade + b"frames")


# Kafka


def frame(key: int, number: int, body: bytes = b"body") -> bytes:
    rest = struct.pack(">hhi", key, 9, number) + body
    return struct.pack(">i", len(rest)) + rest


def answer(number: int, body: bytes = b"answer") -> bytes:
    rest = struct.pack(">i", number) + body
    return struct.pack(">i", len(rest)) + rest


def kafka(store: Endpoint = STORE) -> Kafka:
    return Kafka(store, RELAY)


@given(cuts, cuts)
def test_kafka_is_read_the_same_in_any_pieces(up: list[int], down: list[int]) -> None:
    asked = frame(18, 0) + frame(3, 1) + frame(22, 2) + frame(0, 3, b"x" * 999) + frame(26, 4, b"")
    answered = b"".join(answer(number) for number in range(5))
    by_any_pieces(kafka, asked, answered, up, down)


def test_kafkas_requests_are_named_by_their_keys() -> None:
    keys = (18, 3, 22, 24, 0, 26, 1, 999)
    _, begun, _, _ = read(kafka().asked, iter([b"".join(frame(key, n) for n, key in enumerate(keys))]))
    assert [(name, changes) for _, name, changes in begun] == [
        ("ApiVersions", False),
        ("Metadata", False),
        ("InitProducerId", True),
        ("AddPartitionsToTxn", True),
        ("Produce", True),
        ("EndTxn", True),
        ("Fetch", False),
        ("request 999", True),
    ]


def test_what_was_asked_before_and_never_answered_is_over_with_the_next_answer() -> None:
    conversation = kafka()
    list(conversation.asked(frame(0, 1) + frame(0, 2) + frame(3, 3)))
    assert [part.ends for part in conversation.answered(answer(3))] == [3]


@pytest.mark.parametrize(
    ("declared", "says"),
    [(STORE[0], STORE[0]), ("127.0.0.1", "localhost"), ("localhost", "127.0.0.1"), ("localhost", "localhost")],
)
def test_clients_are_told_the_relays_place_for_the_brokers(declared: str, says: str) -> None:
    host, port = says.encode(), struct.pack(">i", STORE[1])
    ours, number = RELAY[0].encode(), struct.pack(">i", RELAY[1])
    for told, instead in (
        (struct.pack(">h", len(host)) + host + port, struct.pack(">h", len(ours)) + ours + number),
        (bytes([len(host) + 1]) + host + port, bytes([len(ours) + 1]) + ours + number),
    ):
        conversation = kafka((declared, STORE[1]))
        list(conversation.asked(frame(3, 7) + frame(1, 8)))
        moved, untouched = conversation.answered(answer(7, b"<" + told + b">") + answer(8, told))
        assert moved.data == answer(7, b"<" + instead + b">")
        assert untouched.data == answer(8, told)


def test_what_is_no_kafka_is_not_read() -> None:
    with pytest.raises(Unreadable):
        list(kafka().asked(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00"))
    conversation = kafka()
    list(conversation.asked(frame(0, 1)))
    with pytest.raises(Unreadable):
        list(conversation.answered(answer(99)))


# Any other


def test_a_burst_lasts_until_the_store_says_something() -> None:
    conversation = Bursts()
    assert [part.begins is not None for part in (*conversation.asked(b"a"), *conversation.asked(b"b"))] == [True, False]
    assert [part.ends for part in (*conversation.answered(b"c"), *conversation.answered(b"d"))] == [1, 0]
    assert [part.begins is not None for part in conversation.asked(b"e")] == [True]
