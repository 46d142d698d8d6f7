"""Pages of what no author of a page would think of: names that are no text, characters that cannot be seen."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from asking import Ask
from pages_read import assert_sound, read_page
from streamproof.harness.reporting.html.document import made_visible, render, shell_word

UNSEEN = "\x00\x07\x1b[31m\x7f\x9b\u202e\u2028\ufeff"
MODULE = """
from streamproof import *

def _draw(count, seed):
    for number in range(count):
        yield "a\\x00b\\x1b[31m\\u202e" + str(number % 3), number

def loses():
    return Scenario(
        gap(trace(parallelism=1), checkpoint_every=events(50)),
        Workload("unseen", 60, 5, _draw, 7),
        [crash("trace-0").after(ms(8)), crash("relay-0").after(ms(8))],
        claims=[at_least_once()],
    )
"""


def test_what_cannot_be_seen_is_shown() -> None:
    assert made_visible("a\tb\nc é 🙂") == "a\tb\nc é 🙂"
    assert made_visible("\x00\x1b\x7f") == "\u2400\u241b\u2421"
    assert made_visible("a\u202eb\u200bc") == "a⟨U+202E⟩b⟨U+200B⟩c"
    assert made_visible(os.fsdecode(b"a\xff")) == "a\\xff"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", made_visible(UNSEEN))


def test_it_is_shown_wherever_a_template_puts_it() -> None:
    drawing = {
        "lines": list,
        "times": list,
        "arrows": list,
        "steps": list,
        "width": 1.0,
        "height": 1.0,
        "foot_name": "",
    }
    text = render("spacetime.svg.jinja", drawing=drawing, title=f"<{UNSEEN}>", alone=True)
    assert "&lt;\u2400\u2407\u241b[31m" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)


@pytest.mark.parametrize("name", [b"plain", b"two words", b"it's", b"\xff\xfe", b"a'\\\xff $(x)"])
def test_a_path_is_a_word_that_a_shell_gives_back(name: bytes) -> None:
    word = shell_word(Path(os.fsdecode(name)))
    word.encode()
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], stdout=subprocess.PIPE, check=True).stdout
    assert said == name


@pytest.mark.usefixtures("here")
def test_a_run_with_such_keys_in_a_folder_whose_name_is_no_text_is_drawn(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "user_of_unseen.py").write_text(MODULE)
    folder = os.fsdecode(b"lost-\xff")
    assert ask("run", "user_of_unseen:loses", "--cluster", "simulated", "--folder", folder, "--json").status == 1
    answer = ask("report", folder, "--json")
    assert answer.status == 0
    assert answer.document["bytes"] == (tmp_path / folder / "report.html").stat().st_size
    text = (tmp_path / folder / "report.html").read_text()
    page = read_page(text)
    assert_sound(page)
    assert "streamproof judge $'lost-\\xff'" in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
    # Two faults that strike at the same moment.
    assert "Around crash trace-0" in page.text
    assert "Around crash relay-0" in page.text
    assert len(page.of("div", cls="diagram")) == 2
