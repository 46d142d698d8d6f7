"""Which release of a connector goes with which Spark."""

from __future__ import annotations

from collections.abc import Mapping

from ...harness.core.errors import Unsupported


def release_for(connector: str, releases: Mapping[str, str], spark: str) -> str:
    """Of these, by the line of Spark (`4.1`). Raises Unsupported for a line of which no release is known."""
    line = ".".join(spark.split(".")[:2])
    if line not in releases:
        known = ", ".join(releases)
        raise Unsupported(f"no release of {connector} for Spark {spark} is known here; there are for: {known}")
    return releases[line]
