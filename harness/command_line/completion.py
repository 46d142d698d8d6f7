"""What the shell can complete an argument to."""

from __future__ import annotations

from ..core.library import LISTS
from .registered import registered


def complete_scenario(incomplete: str) -> list[str]:
    return [name for name in registered().scenarios if name.startswith(incomplete)]


def complete_cluster(incomplete: str) -> list[str]:
    from .clusters import CLUSTERS

    return [name for name in CLUSTERS if name.startswith(incomplete)]


def complete_profile(incomplete: str) -> list[str]:
    from .clusters import QUERY_PROFILES

    return [name for name in QUERY_PROFILES if name.startswith(incomplete)]


def complete_subject(incomplete: str) -> list[str]:
    return [name for name in registered().subjects if name.startswith(incomplete)]


def complete_upgrade(incomplete: str) -> list[str]:
    known = registered()
    return [name for name in (*known.upgrades, *known.subjects) if name.startswith(incomplete)]


def complete_basis(incomplete: str) -> list[str]:
    from ..upgrading.outcomes import Basis

    return [name for name in Basis if name.startswith(incomplete)]


def complete_claim(incomplete: str) -> list[str]:
    return [name for name in registered().oracles if name.startswith(incomplete)]


def complete_kind(incomplete: str) -> list[str]:
    return [kind for kind in LISTS if kind.startswith(incomplete)]
