"""Where the other keepers come in, at that of rank 0: anybody may connect, who shows the token stays.

May not judge what is said: that is for whom it is handed on to.
"""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Callable
from typing import Final

from chaoskit.sidecar.keeper import Keeper
from chaoskit.sidecar.links import Listener, Message, Peer

_STRANGER_S: Final = 30.0
"""How long a connection may take to show the token. Who has it shows it at once."""
_STRANGERS: Final = 64
"""How many may be about to show it, above one for each rank."""


class Door:
    """``on_message`` and ``on_close`` are those of every :class:`Peer` that comes in."""

    def __init__(
        self,
        keeper: Keeper,
        listener: Listener,
        ranks: int,
        on_message: Callable[[Peer, Message], None],
        on_close: Callable[[Peer], None],
    ) -> None:
        self._keeper = keeper
        self._listener = listener
        self._room = ranks + _STRANGERS
        self._on_message = on_message
        self._on_close = on_close
        self._strangers: list[Peer] = []  # oldest first
        listener.socket.setblocking(False)
        keeper.watch(listener.socket, selectors.EVENT_READ, lambda _: self._accept())

    @property
    def is_waiting(self) -> bool:
        """Somebody is there who has not shown the token: a keeper, perhaps, that has had no core yet."""
        return bool(self._strangers)

    def look(self, now: float) -> None:
        """Hang up on who has been silent for too long."""
        for stranger in [peer for peer in self._strangers if now - peer.heard_at > _STRANGER_S]:
            self._hang_up(stranger)

    def postpone(self, seconds: float) -> None:
        """Nobody ran for so long: it counts for nothing."""
        for stranger in self._strangers:
            stranger.heard_at += seconds

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.socket.accept()
            token = self._listener.token
            self._strangers.append(Peer(self._keeper, connection, token, self._heard, self._closed))
            if len(self._strangers) > self._room:
                self._hang_up(self._strangers[0])

    def _hang_up(self, stranger: Peer) -> None:
        self._strangers.remove(stranger)
        stranger.close()

    def _heard(self, peer: Peer, message: Message) -> None:
        if peer in self._strangers:
            self._strangers.remove(peer)
        self._on_message(peer, message)

    def _closed(self, peer: Peer) -> None:
        if peer in self._strangers:
            self._strangers.remove(peer)
        self._on_close(peer)
