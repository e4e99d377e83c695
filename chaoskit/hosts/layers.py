"""What is in effect where several orders stand at a time: the latest; what was declared when none is left.

Pure bookkeeping; what it means to put something into effect is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
Undo = Callable[[], None]


class Layers(Generic[K, V]):
    """``apply`` puts a value into effect for a key; it is called on changes only. ``declared`` is what holds
    where no order stands."""

    def __init__(self, apply: Callable[[K, V], None], declared: Callable[[K], V]) -> None:
        self._apply = apply
        self._declared = declared
        self._orders: dict[K, list[tuple[object, V]]] = {}
        self._in_effect: dict[K, V] = {}

    def lay(self, key: K, value: V) -> Undo:
        """Put ``value`` on top; return what takes it away again. Raises what ``apply`` raises, and then
        nothing has been laid."""
        mark = object()
        orders = self._orders.setdefault(key, [])
        orders.append((mark, value))
        try:
            self._settle(key)
        except BaseException:
            orders.pop()
            raise

        def undo() -> None:
            self._orders[key] = [entry for entry in self._orders[key] if entry[0] is not mark]
            self._settle(key)

        return undo

    def _settle(self, key: K) -> None:
        orders = self._orders[key]
        wanted = orders[-1][1] if orders else self._declared(key)
        before = self._in_effect.get(key, self._declared(key))
        if wanted != before:
            self._apply(key, wanted)
        self._in_effect[key] = wanted
