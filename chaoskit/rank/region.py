"""The shared memory of one rank: its layout, and how the supervisor reads it while the rank runs.

One memfd holds a region for each slot of an arm. The rank maps its own; what it wrote survives its SIGKILL
and a script that closes all descriptors. A region is

- a header page of 64-bit words (see :class:`Word`), each written by one store;
- *texts*: an append-only log that gives numbers to names, lines, shapes and dtypes, and to *forms*: what
  one place in the script issues again and again (operation, group, line, shape, dtype, peer, thread);
- *notes*: an append-only log of rare events, each a line of :func:`chaoskit.history.to_line`;
- a *ring* of 64-byte slots for what is frequent (entered, completed, failed, stepped, replicated), the
  sequence number first and last, so that a slot that was being written at the rank's death shows as torn. An
  operation that completed has the time of it in the slot of its entry, or, where that may be overwritten
  by then, a slot of its own.

Standard library only; the writing side is :mod:`chaoskit.rank.recorder`. The reader believes
nothing: arbitrary bytes give fewer events, never an exception.
"""

from __future__ import annotations

import enum
import json
import math
import mmap
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from chaoskit import history
from chaoskit.history import Completed, Entered, Event, Identity, Lost, OpFailed, Replicated, Started, Stepped
from chaoskit.operations import COMPLETED, NEVER, OPEN, Form, Forms, Rows
from chaoskit.recorded import Gathering

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview | mmap.mmap

MAGIC: Final = 0x316B_736F_6168_6B63
VERSION: Final = 3
HEADER_BYTES: Final = 4096
EXCHANGE_AT: Final = 2048
"""Where the words of :mod:`chaoskit.rank.exchange` lie in the header page."""
TEXTS_BYTES: Final = 128 * 1024
NOTES_BYTES: Final = 64 * 1024
RING_SLOTS: Final = 8192
SLOT: Final = struct.Struct("<QqIIIII4xQqQ")
"""first, t_ns, kind, form, nth, step, seq, word, end_ns, last. ``word`` is the fingerprint (entered) or the
number of the message (failed); ``end_ns`` is when what was entered completed, 0 before."""
END_AT: Final = 48
"""Where ``end_ns`` lies in a slot. It is written alone, by one store."""
TEXTS_AT: Final = HEADER_BYTES
NOTES_AT: Final = TEXTS_AT + TEXTS_BYTES
RING_AT: Final = NOTES_AT + NOTES_BYTES
REGION_BYTES: Final = RING_AT + RING_SLOTS * SLOT.size
"""Bytes of one slot's region; region ``i`` starts at ``i * REGION_BYTES`` of the memfd."""

NOTE_TEXT_CHARS: Final = 2000
"""Longest text kept of one field of a note."""
NOTES_RESERVE: Final = 24 * 1024
"""The end of the notes area that only decisive events may use, so that chatter cannot crowd them out."""
TEXTS_RESERVE: Final = 16 * 1024
"""The end of the texts area kept for forms without line and shape, for a script whose shapes never repeat."""
DECISIVE: Final = frozenset({"Injected", "Raised", "GuardFired", "Reported", "Finished"})
RANK_FILE: Final = "rank.region"
"""A region that is a file: ``rank<N>/rank.region`` (see :mod:`chaoskit.rank.joining`)."""
_SCAN_SLACK: Final = 64
_LIVE_SCAN: Final = 256
_U32 = 0xFFFF_FFFF
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Channels:
    """What a rank is given by its launcher: descriptor numbers and the index of its region.

    ``doorbell`` is the write end of a pipe that wakes the supervisor; ``release`` an eventfd that becomes
    readable once a rank of the arm has died or stopped (it is only polled, never read). -1: not there.
    ``orders`` is a socket to the switch of virtual hosts (see chaoskit.rank.ordering). ``first_pid`` is the
    process that was started first, whose network the store is looked for in; 0: one's own.
    ``folder``: the regions of all ranks are files below it, each of its own, instead of one memfd.
    """

    memfd: int
    region: int
    doorbell: int = -1
    release: int = -1
    folder: str = ""
    orders: int = -1
    first_pid: int = 0


class Word(enum.IntEnum):
    """The 64-bit words of the header."""

    MAGIC = 0
    VERSION = 1
    PID = 2
    SEQ = 3  # of the newest ring slot, from 1
    STEP = 4  # optimizer steps done
    PROGRESS = 5  # counts everything that is progress: steps, phases, reports
    ALLOWANCE_NS = 6  # CLOCK_MONOTONIC end of the declared phase; 0: none
    WORK_DONE = 7
    FIRED = 8  # bit i: injection i has fired here
    RELEASED = 9  # bit i: who is held for injection i may go on
    TEXTS_USED = 10
    TEXTS_LOST = 11
    NOTES_USED = 12
    NOTES_LOST = 13
    ENDED = 14  # counts the times written into the slots of entries


class Kind(enum.IntEnum):
    """What a ring slot tells."""

    ENTERED = 1
    COMPLETED = 2
    FAILED = 3
    STEPPED = 4
    REPLICATED = 5  # ``nth`` 1: at the end of the script; ``seq`` is the ordinal, ``word`` the checksum


@dataclass(frozen=True, slots=True)
class Live:
    """One cheap look at a running rank. ``op`` is the newest operation it is in, "" outside of any."""

    pid: int = 0
    seq: int = 0  # counts what was entered, completed, failed, stepped
    step: int = 0
    progress: int = 0
    allowance_until_s: float = 0.0  # CLOCK_MONOTONIC
    work_done: bool = False
    fired: int = 0  # how many injections fired here
    op: str = ""
    group: str = ""
    nth: int = 0
    entered_s: float = 0.0  # CLOCK_MONOTONIC
    site: str = ""


def map_region(memfd: int, region: int) -> mmap.mmap:
    """Map one region, readable and writable. Raises OSError or ValueError."""
    return mmap.mmap(memfd, REGION_BYTES, offset=region * REGION_BYTES)


def read_events(region: Buffer, slot: int) -> list[Event]:
    """Return all events of the region of ``slot``, ordered by time; what is damaged is left out.

    A :class:`~chaoskit.history.Lost` event counts overwritten, torn and dropped records. Meant for a rank
    that has ended; of a running one the newest records may be missing.
    """
    gathering = Gathering()
    read_into(gathering, region, slot)
    return gathering.done().all_events()


def read_into(gathering: Gathering, region: Buffer, slot: int) -> None:
    """Add what :func:`read_events` returns to what is gathered, the operations as columns."""
    data = bytes(region)
    words = _words(data)
    if words is None:
        return
    texts = _read_texts(data, words)
    records, lost, torn = _read_ring(data, words)
    entered = [r for r in records if _is_row(r)]
    rows = _to_rows(entered, texts, gathering.forms)
    events = [e for r in records if not _is_row(r) for e in _to_events(r, slot, texts)]
    events += read_notes(data, slot)[0]
    lost += min(words[Word.NOTES_LOST], _U32)
    if rows:
        gathering.add_rows(slot, rows)
    for event in events:
        gathering.add(event)
    if lost or torn:
        last_s = max([0.0, *rows.entered_s, *(t for t in rows.ended_s if t == t), *(e.t_s for e in events)])
        gathering.add(Lost(last_s, slot, lost, torn))


def read_notes(region: Buffer, slot: int, start: int = 0) -> tuple[list[Event], int]:
    """Return the rare events written from position ``start`` on, and the position to go on from.

    Cheap and safe on a running rank: an entry counts only once it is complete.
    """
    header = _words(region)
    if header is None:
        return [], start
    used = min(header[Word.NOTES_USED], NOTES_BYTES)
    return [replace(event, slot=slot) for event in _notes(region, start, used)], max(start, used)


def slots_named(region: Buffer) -> set[int]:
    """Return the slots of which the region itself says that it is theirs; normally one."""
    header = _words(region)
    used = min(header[Word.NOTES_USED], NOTES_BYTES) if header is not None else 0
    return {event.slot for event in _notes(region, 0, used) if isinstance(event, Identity | Started)}


def is_readable(region: Buffer) -> bool:
    """Return whether this is a region, also one into which nothing was written yet."""
    return _words(region) is not None or is_untouched(region)


def is_untouched(region: Buffer) -> bool:
    """Return whether nobody has begun to write into it."""
    return len(region) == REGION_BYTES and not any(memoryview(region)[:HEADER_BYTES])


def live(region: Buffer) -> Live:
    """Return where the rank is now (microseconds of work; for sampling a running rank)."""
    words = _words(region)
    if words is None:
        return Live()
    look = Live(
        pid=words[Word.PID],
        seq=words[Word.SEQ] + words[Word.ENDED],
        step=words[Word.STEP],
        progress=words[Word.PROGRESS],
        allowance_until_s=words[Word.ALLOWANCE_NS] / _NS_PER_S,
        work_done=bool(words[Word.WORK_DONE]),
        fired=words[Word.FIRED].bit_count(),
    )
    entered = _open_operation(region, words[Word.SEQ])
    if entered is None:
        return look
    op, group, site, *_ = _read_texts(region, words).form(entered.form)
    return replace(look, op=op, group=group, nth=entered.nth, entered_s=entered.t_ns / _NS_PER_S, site=site)


class _Record(NamedTuple):
    number: int
    t_ns: int
    kind: int
    form: int
    nth: int
    step: int
    seq: int
    word: int
    end_ns: int
    last: int


@dataclass(frozen=True, slots=True)
class _Texts:
    texts: dict[int, str]
    forms: dict[int, tuple[int, ...]]
    members: dict[str, tuple[int, ...]]

    def form(self, number: int) -> tuple[str, str, str, str, str, int, int]:
        op, group, site, shape, dtype, peer, thread = self.forms.get(number, (-1, -1, 0, 0, 0, -1, 0))
        get = self.texts.get
        return get(op, "?"), get(group, "?"), get(site, ""), get(shape, ""), get(dtype, ""), peer, thread

    def whole_form(self, number: int) -> Form:
        """Return the form with the members of its group."""
        op, group, site, shape, dtype, peer, thread = self.form(number)
        return Form(op, group, site, shape, dtype, self.members.get(group, ()), peer, thread)


def _words(region: Buffer) -> tuple[int, ...] | None:
    if len(region) < REGION_BYTES:
        return None
    words: tuple[int, ...] = struct.unpack_from(f"<{len(Word)}Q", region, 0)
    return words if words[Word.MAGIC] == MAGIC and words[Word.VERSION] == VERSION else None


def _entries(area: memoryview, start: int, used: int) -> Iterator[tuple[int, bytes]]:
    at = start
    while at + 8 <= used:
        size = int.from_bytes(area[at : at + 4], "little")
        number = int.from_bytes(area[at + 4 : at + 8], "little")
        if at + 8 + size > used:
            return
        yield number, bytes(area[at + 8 : at + 8 + size])
        at += 8 + size


def _notes(region: Buffer, start: int, used: int) -> Iterator[Event]:
    area = memoryview(region)[NOTES_AT:RING_AT]
    seen: set[int] = set()
    for number, body in _entries(area, start, used):
        if number in seen:
            continue
        seen.add(number)
        event = _parse_note(body)
        if event is not None:
            yield event


def _parse_note(body: bytes) -> Event | None:
    try:
        event = history.from_line(body.decode())
        return replace(event, t_s=float(event.t_s)) if math.isfinite(event.t_s) else None
    except (ValueError, RecursionError, TypeError, AttributeError, OverflowError):
        return None


def _read_texts(region: Buffer, words: tuple[int, ...]) -> _Texts:
    found = _Texts({0: ""}, {}, {})
    area = memoryview(region)[TEXTS_AT:NOTES_AT]
    for number, body in _entries(area, 0, min(words[Word.TEXTS_USED], TEXTS_BYTES)):
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str):
            found.texts[number] = value
        elif isinstance(value, list) and len(value) == 7 and all(type(v) is int for v in value):
            found.forms[number] = tuple(value)
        elif isinstance(value, dict) and isinstance(value.get("group"), str):
            ranks = value.get("members")
            if isinstance(ranks, list) and all(isinstance(r, int) for r in ranks):
                found.members[value["group"]] = tuple(ranks)
    return found


def _read_record(region: Buffer, index: int) -> tuple[_Record | None, bool]:
    """Return the record of ring slot ``index`` and whether the slot is torn."""
    record = _Record._make(SLOT.unpack_from(region, RING_AT + index * SLOT.size))
    torn = _is_torn(record, index)
    return (record if record.number and not torn else None), torn


def _is_torn(record: _Record, index: int) -> bool:
    number = record.number
    return number != record.last or (number != 0 and number % RING_SLOTS != index)


def _read_ring(region: Buffer, words: tuple[int, ...]) -> tuple[list[_Record], int, int]:
    """Return the records in order, how many were overwritten, and how many are torn."""
    top = words[Word.SEQ]
    used = memoryview(region)[RING_AT : RING_AT + min(RING_SLOTS, top + _SCAN_SLACK) * SLOT.size]
    found = [_Record._make(values) for values in SLOT.iter_unpack(used)]
    whole = [r for index, r in enumerate(found) if not _is_torn(r, index)]
    torn = len(found) - len(whole)
    records = sorted((r for r in whole if r.number), key=lambda r: r.number)
    if not records:
        return [], 0, torn
    newest = records[-1].number
    records = [r for r in records if r.number > newest - RING_SLOTS]
    return records, max(0, newest - RING_SLOTS), torn


def _open_operation(region: Buffer, top: int) -> _Record | None:
    """Return the newest record of an entry that has no end yet, looking a little way back."""
    ended: set[int] = set()
    for number in range(top, max(0, top - _LIVE_SCAN), -1):
        record, _ = _read_record(region, number % RING_SLOTS)
        if record is None or record.number != number:
            continue
        if record.kind in (Kind.COMPLETED, Kind.FAILED):
            ended.add(record.seq)
        elif record.kind == Kind.ENTERED and not record.end_ns and record.seq not in ended:
            return record
    return None


def _is_row(r: _Record) -> bool:
    return r.kind == Kind.ENTERED and r.t_ns >= 0 and r.end_ns >= 0


def _to_rows(entered: Sequence[_Record], texts: _Texts, forms: Forms) -> Rows:
    """The columns of what was entered, at times that are some."""
    number = {form: forms.number(texts.whole_form(form)) for form in {r.form for r in entered}}
    return Rows(
        array("d", [r.t_ns / _NS_PER_S for r in entered]),
        array("d", [r.end_ns / _NS_PER_S if r.end_ns else NEVER for r in entered]),
        array("b", [COMPLETED if r.end_ns else OPEN for r in entered]),
        array("I", [number[r.form] for r in entered]),
        array("I", [r.nth for r in entered]),
        array("I", [r.step for r in entered]),
        array("I", [r.seq for r in entered]),
        array("Q", [r.word for r in entered]),
    )


def _to_events(r: _Record, slot: int, texts: _Texts) -> list[Event]:
    t_s = r.t_ns / _NS_PER_S
    op, group, site, shape, dtype, peer, thread = texts.form(r.form)
    match r.kind:
        case Kind.ENTERED:
            entered = Entered(
                t_s, slot, op, group, r.nth, r.step, r.seq, r.word,
                site, shape, dtype, texts.members.get(group, ()), peer, thread,
            )  # fmt: skip
            if not r.end_ns:
                return [entered]
            return [entered, Completed(r.end_ns / _NS_PER_S, slot, op, group, r.nth, r.step, r.seq)]
        case Kind.COMPLETED:
            return [Completed(t_s, slot, op, group, r.nth, r.step, r.seq)]
        case Kind.FAILED:
            return [OpFailed(t_s, slot, op, group, r.nth, r.step, r.seq, texts.texts.get(r.word, ""))]
        case Kind.STEPPED:
            return [Stepped(t_s, slot, r.step)]
        case Kind.REPLICATED:
            return [Replicated(t_s, slot, r.step, r.word, bool(r.nth), r.seq)]
        case _:
            return []
