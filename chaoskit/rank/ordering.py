"""How a fault in a rank orders a change of the network of virtual hosts: from the switch, over a socket."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import NoReturn

from chaoskit import codec
from chaoskit.network import Order

_MESSAGE_BYTES = 65536


def orderer(fd: int, broken: Callable[[str], None]) -> Callable[[Order], None]:
    """Return what carries out an order before it returns. Raises RuntimeError where it cannot be.

    An order that is refused is told to ``broken`` too: the rank then ends by a fault that is chaoskit's, and
    nothing may be concluded from that. That the switch is gone, its parent tells.
    """

    def refuse(why: str) -> NoReturn:
        broken(why)
        raise RuntimeError(why)

    lock = threading.Lock()  # a fault may fire on any thread, and an answer belongs to its order

    def order(what: Order) -> None:
        if fd < 0:
            refuse(f"the order {what.kind!r} needs virtual hosts: set topology.hosts to 2 or more")
        with lock:
            os.write(fd, json.dumps(codec.encode(what)).encode())
            said = os.read(fd, _MESSAGE_BYTES)
        if not said:
            raise RuntimeError("the switch of the virtual hosts is gone")
        if error := json.loads(said)["error"]:
            refuse(f"the network did not obey {what.kind!r}: {error}")

    return order
