"""What slices, replicas and channels are called."""

from __future__ import annotations


def slice_name(operator: str, index: int) -> str:
    return f"{operator}-{index}"


def operator_of(slice_id: str) -> str:
    return slice_id.rpartition("-")[0]


def index_of(slice_id: str) -> int:
    return int(slice_id.rpartition("-")[2])


def replica_name(slice_id: str, replica: int) -> str:
    """What a replica is called by those who aim at it: the first goes by the name of its slice."""
    return slice_id if replica == 0 else f"{slice_id}/{replica}"


def slice_of(name: str) -> str:
    """The slice that a replica of this name belongs to."""
    return name.partition("/")[0]


def replica_of(name: str) -> int:
    return int(name.partition("/")[2] or 0)


def channel_name(upstream: str, downstream: str) -> str:
    return f"{upstream}>{downstream}"
