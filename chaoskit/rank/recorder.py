"""The writing side of a rank's region: fast, and never an exception into the script that is recorded.

It knows the layout of :mod:`chaoskit.rank.region` and nothing of triggers, torch or the plan.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from itertools import count
from typing import Final

from chaoskit import history
from chaoskit.history import Event
from chaoskit.rank.region import (
    DECISIVE,
    END_AT,
    HEADER_BYTES,
    MAGIC,
    NOTE_TEXT_CHARS,
    NOTES_AT,
    NOTES_RESERVE,
    REGION_BYTES,
    RING_AT,
    RING_SLOTS,
    SLOT,
    TEXTS_AT,
    TEXTS_BYTES,
    TEXTS_RESERVE,
    VERSION,
    Channels,
    Kind,
    Word,
    map_region,
)
from chaoskit.redacting import Redactor

_U64: Final = 0xFFFF_FFFF_FFFF_FFFF
_PACK = SLOT.pack_into
_now = time.monotonic_ns
# As plain numbers, for the hot path.
_ENTERED, _COMPLETED, _SEQ, _ENDED = int(Kind.ENTERED), int(Kind.COMPLETED), int(Word.SEQ), int(Word.ENDED)
_END_WORD = END_AT // 8
# An entry that is so old may be overwritten at any moment by another thread.
_OLD: Final = RING_SLOTS // 2
_LONGEST_MESSAGE: Final = 8000
_SHOWN_OF_MESSAGE: Final = 400


_Form = tuple[str, str, str, str, str, int, int]
"""Operation, group, line, shape, dtype, peer and thread."""
Entry = tuple[int, int, int, int, int]
"""What was entered: number of the record, form, nth, step, seq."""


class _Log:
    """An append-only log of (length, number, bytes) entries. Safe for threads and nested signal handlers."""

    __slots__ = ("_area", "_header", "_lock", "_lost", "_numbers", "_queue", "_used")

    def __init__(self, area: memoryview, header: memoryview, used: Word, lost: Word) -> None:
        self._area, self._header, self._used, self._lost = area, header, int(used), int(lost)
        self._numbers = count(1)
        self._queue: deque[tuple[bytes, int]] = deque()
        self._lock = threading.RLock()

    def append(self, body: bytes, reserve: int = 0) -> int:
        """Append ``body`` if it fits before the last ``reserve`` bytes; return its number, else 0."""
        number = next(self._numbers)
        entry = len(body).to_bytes(4, "little") + number.to_bytes(4, "little") + body
        if self._header[self._used] + len(entry) > len(self._area) - reserve:
            self._header[self._lost] += 1
            return 0
        self._queue.append((entry, reserve))
        with self._lock:
            self._drain()
        return number

    def _drain(self) -> None:
        # A signal handler may append in the middle of this. It then writes the entry that is under way
        # first, at the same place: repeating that is harmless, and USED never goes back.
        header, used = self._header, self._used
        while self._queue:
            item = self._queue[0]
            start = header[used]
            end = start + len(item[0])
            if end <= len(self._area) - item[1]:
                self._area[start:end] = item[0]
                if header[used] < end:
                    header[used] = end
            else:
                header[self._lost] += 1
            if self._queue and self._queue[0] is item:
                self._queue.popleft()


class Recorder:
    """The writing side, one per rank. Fast, and never an exception into the script that is recorded."""

    def __init__(self, memory: mmap.mmap, doorbell: int = -1) -> None:
        view = memoryview(memory)
        self._header = view[:HEADER_BYTES].cast("Q")
        self._ring = view[RING_AT:REGION_BYTES]
        self._ring_words = self._ring.cast("q")
        self._texts = _Log(view[TEXTS_AT:NOTES_AT], self._header, Word.TEXTS_USED, Word.TEXTS_LOST)
        self._notes = _Log(view[NOTES_AT:RING_AT], self._header, Word.NOTES_USED, Word.NOTES_LOST)
        self._numbers = count(1)
        self._newest = 0
        self._ended = count(1)
        self._text_ids: dict[str, int] = {"": 0}
        self._forms: dict[_Form, int] = {}
        self._doorbell = doorbell
        self._doorbell_id = _identity(doorbell)
        self._muted = False
        self._redactor = _of_this_process()
        self._header[Word.PID] = os.getpid()
        self._header[Word.VERSION] = VERSION
        self._header[Word.MAGIC] = MAGIC
        # Children of the script inherit the mapping; they are not this rank.
        os.register_at_fork(after_in_child=self._mute)

    @classmethod
    def open(cls, channels: Channels) -> Recorder:
        """Map the region of ``channels``. Raises OSError where the descriptor is none of ours."""
        return cls(map_region(channels.memfd, channels.region), channels.doorbell)

    def _mute(self) -> None:
        self._muted = True

    @property
    def muted(self) -> bool:
        """True in a forked child of the rank."""
        return self._muted

    def form(
        self,
        op: str,
        group: str,
        site: str = "",
        shape: str = "",
        dtype: str = "",
        peer: int = -1,
        thread: int = 0,
    ) -> int:
        """Return the number of a form; without line and shape once room is short, 0 without any room."""
        parts = (op, group, site, shape, dtype, peer, thread)
        number = self._forms.get(parts)
        if number is None:
            number = self._forms[parts] = self._new_form(parts)
        return number

    def _new_form(self, parts: _Form) -> int:
        if self._muted:
            return 0
        room = TEXTS_BYTES - self._header[Word.TEXTS_USED] - TEXTS_RESERVE
        peer, thread = parts[5:]
        needed = sum(len(json.dumps(part)) for part in parts) + 200
        if room < needed:
            parts = (parts[0], parts[1], "", "", "", peer, thread)
            if (known := self._forms.get(parts)) is not None:
                return known
        numbers = [*(self.text(part) for part in parts[:5]), peer, thread]
        number = self._forms[parts] = self._texts.append(json.dumps(numbers, separators=(",", ":")).encode())
        return number

    def text(self, text: str) -> int:
        """Return the number of ``text``; 0 where there is no room for it."""
        number = self._text_ids.get(text)
        if number is None:
            body = json.dumps(text[:NOTE_TEXT_CHARS]).encode()
            number = self._text_ids[text] = 0 if self._muted else self._texts.append(body)
        return number

    def said(self, message: str) -> int:
        """Return the number of what an error says, without secrets and not longer than needed."""
        return self.text(self._redactor.text(message[:_LONGEST_MESSAGE])[:_SHOWN_OF_MESSAGE])

    def members(self, group: str, ranks: tuple[int, ...]) -> None:
        """Say once who belongs to ``group``; the reader puts it into each Entered of that group."""
        if not self._muted:
            self._texts.append(json.dumps({"group": group, "members": list(ranks)}).encode())

    def put(
        self, kind: int, t_ns: int, form: int = 0, nth: int = 0, step: int = 0, seq: int = 0, word: int = 0
    ) -> None:
        """Write one ring slot. Numbers from 0 to 2**32 - 1, ``word`` to 2**64 - 1."""
        if self._muted:
            return
        number = next(self._numbers)
        _PACK(self._ring, number % RING_SLOTS * 64, number, t_ns, kind, form, nth, step, seq, word, 0, number)
        self._header[_SEQ] = self._newest = number

    def enter(self, form: int, nth: int, step: int, seq: int, fingerprint: int) -> Entry:
        """Write that an operation is entered now."""
        if self._muted:
            return (0, form, nth, step, seq)
        number = next(self._numbers)
        _PACK(
            self._ring, number % RING_SLOTS * 64,
            number, _now(), _ENTERED, form, nth, step, seq, fingerprint, 0, number,
        )  # fmt: skip
        self._header[_SEQ] = self._newest = number
        return (number, form, nth, step, seq)

    def complete(self, entry: Entry) -> None:
        """Write that the operation of ``entry`` completes now."""
        if self._muted:
            return
        number = entry[0]
        if self._newest - number < _OLD:
            self._ring_words[number % RING_SLOTS * 8 + _END_WORD] = _now()
            self._header[_ENDED] = next(self._ended)
        else:
            self.put(_COMPLETED, _now(), *entry[1:])

    def note(self, event: Event, fired_bit: int = -1) -> None:
        """Write a rare event, set its bit of FIRED, then ring the doorbell if the supervisor should act."""
        if self._muted:
            return
        name = type(event).__name__
        if name == "Raised":  # the script may have read secrets into its environment meanwhile
            self._redactor = _of_this_process()
        body = history.to_line(_shortened(self._redactor.event(event))).encode("utf-8", "backslashreplace")
        self._notes.append(body, 0 if name in DECISIVE else NOTES_RESERVE)
        if fired_bit >= 0:
            self.set_bit(Word.FIRED, fired_bit)
        if name in DECISIVE:
            self.ring_doorbell()

    def ring_doorbell(self) -> None:
        """Wake the supervisor; does nothing where the script closed or reused the descriptor."""
        if self._doorbell_id is None or _identity(self._doorbell) != self._doorbell_id:
            return
        # Full: the supervisor is awake anyway; broken: nobody listens.
        with contextlib.suppress(OSError):
            os.write(self._doorbell, b"!")

    def word(self, word: Word) -> int:
        value: int = self._header[word]
        return value

    def set_word(self, word: Word, value: int) -> None:
        if not self._muted:
            self._header[word] = value & _U64

    def set_bit(self, word: Word, bit: int) -> None:
        self.set_word(word, self.word(word) | 1 << bit)


def _of_this_process() -> Redactor:
    return Redactor.of(os.environ, words=sys.argv)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        stat = os.fstat(fd)
    except OSError:
        return None
    return (stat.st_dev, stat.st_ino)


def _shortened(event: Event) -> Event:
    changes: dict[str, str | tuple[object, ...]] = {}
    for name in _field_names(type(event)):
        value = getattr(event, name)
        if isinstance(value, str) and len(value) > NOTE_TEXT_CHARS:
            half = NOTE_TEXT_CHARS // 2
            changes[name] = f"{value[:half]} … {value[-half:]}"
        elif isinstance(value, tuple) and len(value) > 24:
            changes[name] = (*value[:8], *value[-16:])
    return replace(event, **changes) if changes else event  # type: ignore[arg-type]


def _field_names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(kind.__dataclass_fields__)
