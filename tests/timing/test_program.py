"""A program's steps: the first of a block is not timed, and between blocks it rests until it is told."""

from __future__ import annotations

import socket
import threading

from chaoskit.timing.messages import Block, Prepared, Timed, Wire
from chaoskit.timing.program import Pacer


def test_it_says_it_is_there_after_its_first_step_and_times_as_many_as_asked() -> None:
    ours, theirs = socket.socketpair()
    runner, rank = Wire(ours), Wire(theirs)
    pacer = Pacer(rank, lambda: Prepared(("proof",), sides=((), ("own",))))
    made: list[int] = []

    def program() -> None:
        for step in range(1, 9):
            made.append(step)
            pacer.step_done(step)

    thread = threading.Thread(target=program, daemon=True)
    thread.start()
    assert runner.receive() == Prepared(("proof",), sides=((), ("own",)))
    assert made == [1]
    runner.send(Block(0, 3))
    assert isinstance(runner.receive(), Timed)
    assert made == [1, 2, 3, 4, 5]  # one that is not timed, and three
    runner.send(Block(0, 1, lead=1))
    assert isinstance(runner.receive(), Timed)
    assert made[-1] == 7
    runner.send(Block(0, 1, lead=2))  # the program ends before it has made them
    thread.join(30)
    assert made[-1] == 8
    runner.close()
    rank.close()
