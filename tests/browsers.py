"""Which browser tests find on this machine."""

from __future__ import annotations

import importlib.util
import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def why_no_browser() -> str | None:
    """Why pages cannot be opened here, or None if they can."""
    if CHROMIUM is None:
        return "needs a browser: none of chromium, chromium-browser and google-chrome is on PATH"
    if importlib.util.find_spec("playwright") is None:
        return "needs Playwright to drive the browser: pip install playwright axe-playwright-python"
    return None
