"""Orders that stand at the same time for the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.hosts.layers import Layers


def test_the_latest_is_in_effect_and_the_one_before_it_after_that() -> None:
    applied: list[tuple[str, int]] = []
    layers = Layers[str, int](lambda key, value: applied.append((key, value)), lambda _: 0)
    first, second = layers.lay("a", 1), layers.lay("a", 2)
    first()
    assert applied == [("a", 1), ("a", 2)]
    second()
    assert applied[2:] == [("a", 0)]


def test_what_changes_nothing_is_not_applied() -> None:
    applied: list[int] = []
    layers = Layers[str, int](lambda _, value: applied.append(value), lambda _: 5)
    undo = layers.lay("a", 5)
    undo()
    assert applied == []


def test_an_order_that_cannot_be_carried_out_does_not_stand() -> None:
    def refuse(_: str, value: int) -> None:
        if value == 2:
            raise OSError("no")

    layers = Layers[str, int](refuse, lambda _: 0)
    undo = layers.lay("a", 1)
    with pytest.raises(OSError, match="no"):
        layers.lay("a", 2)
    undo()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), max_size=8), st.randoms())
def test_nothing_is_left_whatever_is_undone_when(orders: list[tuple[str, int]], random: object) -> None:
    in_effect: dict[str, int] = {}
    layers = Layers[str, int](in_effect.__setitem__, lambda _: 0)
    undos = [layers.lay(*order) for order in orders]
    random.shuffle(undos)  # type: ignore[attr-defined]
    for undo in undos:
        undo()
    assert set(in_effect.values()) <= {0}
