"""What tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from browsers import CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The pages are our own, and a container's root can have no sandbox.
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield launched
        finally:
            launched.close()
