"""The numbers of a script's threads."""

from __future__ import annotations

import ctypes
import threading

from chaoskit.rank.threads import MOST, Threads


def test_the_main_thread_is_0_and_others_count_from_1_in_order() -> None:
    threads, seen = Threads(), []
    inside, over = threading.Barrier(3), threading.Event()

    def run(turn: threading.Event, then: threading.Event) -> None:
        turn.wait()
        seen.append(threads.number(threading.get_ident()))
        then.set()
        inside.wait()
        over.wait()

    turns = [threading.Event() for _ in range(3)]
    started = [threading.Thread(target=run, args=turns[i : i + 2]) for i in range(2)]
    for thread in started:
        thread.start()
    turns[0].set()
    inside.wait()
    assert threads.number(threading.get_ident()) == 0
    assert seen == [1, 2]
    assert [threads.number(t.ident or 0) for t in started] == [1, 2]
    over.set()
    for thread in started:
        thread.join()


def test_a_thread_that_native_code_made_works_for_the_main_one() -> None:
    threads, seen = Threads(), []

    def look(_: object) -> None:
        seen.append(threads.number(threading.get_ident()))

    run = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(look)
    library = ctypes.CDLL(None)
    handle = ctypes.c_ulong()
    assert library.pthread_create(ctypes.byref(handle), None, run, None) == 0
    library.pthread_join(handle, None)
    assert seen == [0]


def test_numbers_do_not_grow_without_end() -> None:
    threads = Threads()
    over = threading.Event()
    started = [threading.Thread(target=over.wait) for _ in range(MOST + 5)]
    for thread in started:
        thread.start()
    assert [threads.number(t.ident or 0) for t in started][MOST - 2 :] == [MOST - 1, *[MOST] * 6]
    over.set()
    for thread in started:
        thread.join()
