"""What a rank writes survives it, and the reader believes nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.history import (
    Completed,
    Entered,
    Event,
    Held,
    Injected,
    Lost,
    OpFailed,
    Raised,
    Reported,
    Stepped,
)
from chaoskit.rank import region
from chaoskit.rank.recorder import Recorder
from chaoskit.rank.region import (
    NOTES_AT,
    NOTES_RESERVE,
    REGION_BYTES,
    RING_AT,
    RING_SLOTS,
    SLOT,
    Channels,
    Kind,
    Word,
    live,
    map_region,
    read_events,
    read_notes,
)


@pytest.fixture
def memfd() -> Iterator[int]:
    fd = os.memfd_create("test")
    os.truncate(fd, 2 * REGION_BYTES)
    yield fd
    with contextlib.suppress(OSError):
        os.close(fd)


def enter(recorder: Recorder, seq: int, op: str = "all_reduce") -> None:
    form = recorder.form(op, "default", "train.py:7", "4", "float32")
    recorder.put(Kind.ENTERED, seq * 1000, form, seq, 1, seq, 77)


def test_what_is_written_is_read(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 1))
    recorder.members("default", (0, 1))
    enter(recorder, 1)
    form = recorder.form("all_reduce", "default", "train.py:7", "4", "float32")
    recorder.put(Kind.COMPLETED, 2000, form, 1, 1, 1)
    recorder.put(Kind.FAILED, 3000, form, 2, 1, 2, recorder.text("Connection closed"))
    recorder.put(Kind.STEPPED, 4000, 0, 0, 1)
    recorder.note(Reported(5e-6, -1, 2.5))
    assert read_events(map_region(memfd, 1), 3) == [
        Entered(1e-6, 3, "all_reduce", "default", 1, 1, 1, 77, "train.py:7", "4", "float32", (0, 1)),
        Completed(2e-6, 3, "all_reduce", "default", 1, 1, 1),
        OpFailed(3e-6, 3, "all_reduce", "default", 2, 1, 2, "Connection closed"),
        Stepped(4e-6, 3, 1),
        Reported(5e-6, 3, 2.5),
    ]
    assert read_events(map_region(memfd, 0), 0) == []  # the neighbour's


def test_the_newest_records_are_kept_and_the_lost_ones_counted(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    for seq in range(1, RING_SLOTS + 101):
        enter(recorder, seq)
    events = read_events(map_region(memfd, 0), 0)
    assert [e.seq for e in events if isinstance(e, Entered)] == list(range(101, RING_SLOTS + 101))
    assert events[-1] == Lost(events[-2].t_s, 0, 100, 0)


def test_torn_slots_are_dropped_and_counted(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    for seq in range(1, 11):
        enter(recorder, seq)
    memory = map_region(memfd, 0)
    at = RING_AT + 10 * SLOT.size  # the tenth: first written, last not yet
    memory[at + 56 : at + 64] = bytes(8)
    events = read_events(memory, 0)
    assert [e.seq for e in events if isinstance(e, Entered)] == list(range(1, 10))
    assert isinstance(events[-1], Lost)
    assert events[-1].torn == 1


def test_a_live_look_shows_the_operation_that_the_rank_is_in(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    memory = map_region(memfd, 0)
    assert live(memory).op == ""
    enter(recorder, 1)
    enter(recorder, 2, "broadcast")
    look = live(memory)
    assert (look.op, look.group, look.nth, look.site, look.pid) == (
        "broadcast", "default", 2, "train.py:7", os.getpid(),
    )  # fmt: skip
    recorder.put(Kind.COMPLETED, 9, recorder.form("broadcast", "default"), 2, 1, 2)
    assert live(memory).op == "all_reduce"  # that one is still open
    recorder.put(Kind.FAILED, 9, recorder.form("all_reduce", "default"), 1, 1, 1)
    recorder.set_word(Word.STEP, 5)
    recorder.set_bit(Word.FIRED, 3)
    assert (live(memory).op, live(memory).step, live(memory).fired) == ("", 5, 1)


def test_notes_are_read_once_each_as_they_come(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    memory = map_region(memfd, 0)
    recorder.note(Injected(1.0, 0, 0, "kill"))
    events, at = read_notes(memory, 0)
    assert events == [Injected(1.0, 0, 0, "kill")]
    recorder.note(Reported(2.0, 0, 1.0))
    events, at = read_notes(memory, 0, at)
    assert events == [Reported(2.0, 0, 1.0)]
    assert read_notes(memory, 0, at) == ([], at)


def test_chatter_cannot_crowd_out_what_decides(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    for number in range(3000):
        recorder.note(Held(float(number), 0, "all_reduce", "default", number))
    recorder.note(Raised(9999.0, 0, "OSError", "disk full" * 5000, "own"))
    events = read_events(map_region(memfd, 0), 0)
    assert [e.message[:9] for e in events if isinstance(e, Raised)] == ["disk full"]
    held = [e.nth for e in events if isinstance(e, Held)]
    assert held == list(range(len(held)))
    assert events[-1] == Lost(9999.0, 0, 3000 - len(held), 0)
    assert recorder.word(Word.NOTES_USED) > region.NOTES_BYTES - NOTES_RESERVE - 200


def test_shapes_that_never_repeat_cost_lines_but_no_operation(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    for number in range(5000):
        form = recorder.form("all_reduce", "default", "train.py:7", str(number), "float32")
        recorder.put(Kind.ENTERED, number, form, number, 1, number)
    events = [e for e in read_events(map_region(memfd, 0), 0) if isinstance(e, Entered)]
    assert len(events) == 5000
    assert {(e.op, e.group) for e in events} == {("all_reduce", "default")}
    assert events[100].shape == "100"
    assert events[-1].shape == ""


def test_peer_and_thread_are_parts_of_a_form_that_stay_when_room_is_short(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    for number in range(5000):
        form = recorder.form(
            "send", "default", "train.py:7", str(number), "float32", number % 3 - 1, number % 2
        )
        recorder.put(Kind.ENTERED, number, form, number, 1, number)
    events = [e for e in read_events(map_region(memfd, 0), 0) if isinstance(e, Entered)]
    assert events[-1].shape == ""
    assert [(e.peer, e.thread) for e in events] == [(n % 3 - 1, n % 2) for n in range(5000)]


def test_a_note_from_a_signal_handler_in_the_middle_of_another_is_kept(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    count = 0

    def interrupt(*_: object) -> None:
        nonlocal count
        if count < 200:
            count += 1
            recorder.note(Held(float(count), 0, "handler", "default", count))

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, 0.0002, 0.0002)
    try:
        written = 0
        while count < 100 and written < 120:
            written += 1
            recorder.note(Held(0.0, 0, "main", "default", written))
            for _ in range(2000):
                pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    events = [e for e in read_events(map_region(memfd, 0), 0) if isinstance(e, Held)]
    assert [e.nth for e in events if e.op == "main"] == list(range(1, written + 1))
    assert sorted(e.nth for e in events if e.op == "handler") == list(range(1, count + 1))


def test_threads_may_write_at_once(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))

    def write(name: str) -> None:
        for number in range(100):
            recorder.note(Held(0.0, 0, name, "default", number))
            recorder.put(Kind.STEPPED, 0, 0, 0, number)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = read_events(map_region(memfd, 0), 0)
    for name in "abcd":
        assert [e.nth for e in events if isinstance(e, Held) and e.op == name] == list(range(100))
    assert len([e for e in events if isinstance(e, Stepped)]) == 400


def test_records_survive_sigkill_and_closed_descriptors(memfd: int) -> None:
    bell_r, bell_w = os.pipe()
    with fork() as pid:
        if pid == 0:
            recorder = Recorder.open(Channels(memfd, 0, bell_w))
            os.write(bell_w, b"r")
            os.closerange(3, 256)
            target = os.open("/dev/null", os.O_WRONLY)  # gets a number that we had
            assert target == 3
            recorder.note(Injected(1.0, 0, 0, "kill"))
            for seq in range(1, 100_000_000):
                enter(recorder, seq)
        assert os.read(bell_r, 1) == b"r"
        memory = map_region(memfd, 0)
        while live(memory).seq < RING_SLOTS:
            os.sched_yield()
        os.kill(pid, signal.SIGKILL)
    events = read_events(memory, 0)
    entered = [e.seq for e in events if isinstance(e, Entered)]
    assert entered == list(range(entered[0], entered[-1] + 1))  # a torn one can only be the last
    assert len(entered) >= RING_SLOTS - 1
    assert [e for e in events if isinstance(e, Injected)]
    for fd in (bell_r, bell_w):
        os.close(fd)


def test_a_forked_worker_of_the_script_writes_nothing(memfd: int) -> None:
    recorder = Recorder.open(Channels(memfd, 0))
    enter(recorder, 1)
    with fork() as pid:
        if pid == 0:
            enter(recorder, 2)
            recorder.note(Reported(0.0, 0, 1.0))
            recorder.set_word(Word.WORK_DONE, 1)
            os._exit(0)
    assert len(read_events(map_region(memfd, 0), 0)) == 1
    assert not live(map_region(memfd, 0)).work_done


def test_the_doorbell_rings_for_what_decides_only(memfd: int) -> None:
    bell_r, bell_w = os.pipe2(os.O_NONBLOCK)
    recorder = Recorder.open(Channels(memfd, 0, bell_w))
    recorder.note(Held(0.0, 0, "all_reduce", "default", 1))
    with pytest.raises(BlockingIOError):
        os.read(bell_r, 1)
    recorder.note(Injected(1.0, 0, 0, "kill"))
    assert os.read(bell_r, 9) == b"!"
    os.close(bell_w)
    recorder.note(Injected(1.0, 0, 0, "kill"))  # closed: no exception, and nothing written elsewhere
    os.close(bell_r)


@contextlib.contextmanager
def fork() -> Iterator[int]:
    pid = os.fork()
    if pid == 0:
        try:
            yield 0
        finally:
            os._exit(1)
    yield pid
    os.waitpid(pid, 0)


# ------------------------------------------------------------------------------------ nothing is believed


def a_region() -> bytearray:
    """A region with something of everything in it."""
    fd = os.memfd_create("sample")
    os.truncate(fd, REGION_BYTES)
    recorder = Recorder.open(Channels(fd, 0))
    recorder.members("default", (0, 1))
    for seq in range(1, 50):
        enter(recorder, seq)
        recorder.note(Held(time.monotonic(), 0, "all_reduce", "default", seq))
    with contextlib.closing(map_region(fd, 0)) as memory:
        data = bytearray(memory)
    os.close(fd)
    return data


SAMPLE = a_region()


def check(data: bytes | bytearray) -> None:
    assert all(isinstance(e, Event) for e in read_events(data, 0))
    live(data)
    read_notes(data, 0, 17)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=4096), st.sampled_from([0, region.TEXTS_AT, NOTES_AT, RING_AT]))
def test_arbitrary_bytes_never_raise(data: bytes, at: int) -> None:
    broken = bytearray(SAMPLE)
    broken[at : at + len(data)] = data
    check(broken)
    check(data)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(16, RING_AT + 4096), st.integers(0, 255)), max_size=40))
def test_flipped_bytes_never_raise(flips: list[tuple[int, int]]) -> None:
    broken = bytearray(SAMPLE)
    for at, value in flips:
        broken[at] = value
    check(broken)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.integers(1, 49)), st.data())
def test_every_torn_slot_is_dropped(torn: set[int], data: st.DataObject) -> None:
    broken = bytearray(SAMPLE)
    for number in torn:
        start = RING_AT + number * SLOT.size
        half = data.draw(st.sampled_from([0, 56]))  # the number is missing at one end
        broken[start + half : start + half + 8] = bytes(8)
    events = read_events(broken, 0)
    kept = [e.seq for e in events if isinstance(e, Entered)]
    assert kept == [n for n in range(1, 50) if n not in torn]
    assert sum(e.torn for e in events if isinstance(e, Lost)) == len(torn)
