"""What was lost stands where it was sent, in the order of the run."""

from __future__ import annotations

from streamproof.harness.judging.run_order import _order, as_sent

A = [("a", number) for number in range(4)]
B = [("b", number) for number in range(3)]


def test_what_was_taken_keeps_its_order_and_what_was_lost_follows_what_came_before_it() -> None:
    took = [A[0], B[0], A[2], B[2]]
    assert list(_order(took, [A, B])) == [A[0], B[0], A[1], A[2], B[1], B[2], A[3]]


def test_what_came_late_or_twice_or_from_nowhere_does_no_harm() -> None:
    assert list(_order([A[1], ("x", 9), A[0], A[1], B[0]], [A, B])) == [A[1], A[0], B[0], A[2], A[3], B[1], B[2]]
    assert list(_order([], [A, B])) == [*A, *B]


def test_what_was_made_otherwise_stands_behind_what_was_made_before_it() -> None:
    assert as_sent(A, A) == A
    assert as_sent(A, [("x", 1), A[1], ("x", 2), ("x", 3), A[3]]) == [
        ("x", 1),
        A[0],
        A[1],
        ("x", 2),
        ("x", 3),
        A[2],
        A[3],
    ]
