"""What the tests of the file layer share."""

from collections.abc import Iterator

import pytest

from held_operations import Controller


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.close()
