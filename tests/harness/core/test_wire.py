"""What is said over a connection, as it arrives at the other side."""

import socket

from streamproof.harness.core.wire import frame, receive_frame


def test_a_frame_arrives_whole() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(frame("said"))
        assert receive_frame(other) == frame("said")[4:]


def test_who_ends_without_a_word_has_ended() -> None:
    one, other = socket.socketpair()
    with other:
        one.close()
        assert receive_frame(other) is None


def test_who_ends_before_it_has_read_all_that_it_was_sent_has_ended_too() -> None:
    one, other = socket.socketpair()
    with other:
        other.sendall(frame("unread"))
        one.close()
        assert receive_frame(other) is None
