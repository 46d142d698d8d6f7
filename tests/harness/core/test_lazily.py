from __future__ import annotations

from dataclasses import dataclass, field

from streamproof.harness.core.lazily import lazily


@dataclass(frozen=True)
class Asked:
    times: list[int] = field(default_factory=list)

    @lazily
    def answer(self) -> int:
        """What it is."""
        self.times.append(1)
        return 42


def test_it_is_computed_when_it_is_first_asked_for_and_once_for_each_object() -> None:
    one, other = Asked(), Asked()
    assert one.times == []
    assert (one.answer, one.answer, other.answer) == (42, 42, 42)
    assert one.times == other.times == [1]


def test_of_its_class_it_is_what_computes_it() -> None:
    assert isinstance(Asked.answer, lazily)
    assert Asked.answer.__doc__ == "What it is."
