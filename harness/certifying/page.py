"""The page for people: `certificate.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .certificate import Certificate


def page(certificate: Certificate) -> str:
    return f"# {certificate.name}\n"
