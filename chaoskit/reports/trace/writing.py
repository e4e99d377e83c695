"""Writes a trace, piece by piece, into a stream."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, TypeVar

from chaoskit.history import Ended, Event, Identity, Injected
from chaoskit.recorded import Form, Recorded, Rows
from chaoskit.reports.trace.instants import name_of, values_of
from chaoskit.reports.trace.lanes import LANES_MAX, NO_LANE, Lanes
from chaoskit.reports.trace.meetings import Last, Meetings, sent
from chaoskit.reports.wording import LONGEST_NAME, ranks_of, safe

E = TypeVar("E", bound=Event)

ARROWS_MAX = 100_000
"""With more operations than that, of each that went well only the longest wait has an arrow."""
_PIDS_OF_ARM = 8192
_TIDS_OF_RANK = 1024
_ARM = 0  # the process that stands for the arm as a whole; the rank in slot n is n + 1
_BUFFERED = 4096
_INSIDE_US = 0.5
"""An arrow ends that far inside an operation, or it might be drawn to the one before."""
_Waited = dict[int | tuple[int, ...], str]
"""A slot, or the members that never came → their name in the trace."""
_HOW = ("never", "completed", "failed")


@dataclass(frozen=True, slots=True)
class TracedArm:
    """An arm to be drawn. ``name`` stands before the names of its ranks: '' where it is the only one."""

    name: str
    recorded: Recorded
    hosts: Mapping[int, str] = field(default_factory=dict)
    """Slot → virtual host."""


def write(arms: Iterable[TracedArm], stream: IO[bytes], about: Mapping[str, str]) -> None:
    """Write the trace of ``arms``, one at a time; ``about`` is said of the whole. Raises OSError."""
    out = _Out(stream)
    said = {safe(k): safe(v) for k, v in about.items()}
    out.start(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(said)},"traceEvents":[\n')
    for number, arm in enumerate(arms):
        _Arm(arm, number * _PIDS_OF_ARM + 1, out).write()
    out.end("\n]}\n")


class _Out:
    """The stream, with the commas between events."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._events: list[str] = []
        self._separator = ""
        self._arrows = 0

    def start(self, text: str) -> None:
        self._stream.write(text.encode("ascii"))

    def event(self, text: str) -> None:
        self._events.append(text)
        if len(self._events) >= _BUFFERED:
            self._flush()

    def arrow(self, begin: str, end: str, name: str) -> None:
        """An arrow from a place to another, each as ``"pid":…,"tid":…,"ts":…``."""
        self._arrows += 1
        same = f'"name":{json.dumps(name)},"cat":"waits","id":{self._arrows}'
        self.event(f'{{"ph":"s",{same},{begin}}}')
        self.event(f'{{"ph":"f","bp":"e",{same},{end}}}')

    def end(self, text: str) -> None:
        self._flush()
        self._stream.write(text.encode("ascii"))

    def _flush(self) -> None:
        if self._events:
            self._stream.write((self._separator + ",\n".join(self._events)).encode("ascii"))
            self._separator = ",\n"
            self._events.clear()


class _Arm:
    """Writes one arm, whose processes are numbered from ``pid`` on."""

    def __init__(self, arm: TracedArm, pid: int, out: _Out) -> None:
        self._arm = arm
        self._recorded = arm.recorded
        self._pid = pid
        self._out = out
        self._zero_s, self._end_s = _span(arm.recorded)
        self._rank_of = {slot: slot for slot in arm.recorded.rows}
        self._rank_of |= {e.slot: e.rank for e in self._events(Identity) if e.rank >= 0}
        self._ended_s = {e.slot: e.t_s for e in self._events(Ended)}
        self._meetings = Meetings(arm.recorded, self._rank_of)
        self._lanes = {
            slot: Lanes(rows, arm.recorded.forms, max(self._ended_s.get(slot, self._end_s), self._zero_s))
            for slot, rows in sorted(arm.recorded.rows.items())
        }

    def _events(self, kind: type[E]) -> Iterator[E]:
        return (e for e in self._recorded.events if isinstance(e, kind))

    def write(self) -> None:
        self._write_names()
        for slot, rows in sorted(self._recorded.rows.items()):
            self._write_operations(slot, rows)
        for event in self._recorded.events:
            self._write_instant(event)
        self._write_waits()
        self._write_sends()

    # ------------------------------------------------------------ names

    def _write_names(self) -> None:
        hosts = {e.slot: e.host for e in self._events(Identity)} | {
            k: v for k, v in self._arm.hosts.items() if v
        }
        several = len(set(hosts.values())) > 1
        before = f"{self._arm.name} " if self._arm.name else ""
        self._name_process(_ARM, f"{before}arm", 0)
        slots = sorted({*self._rank_of, *(e.slot for e in self._recorded.events if e.slot >= 0)})
        for slot in slots:
            claimed = self._rank_of.get(slot, slot)
            rank = f"rank {slot}" if claimed == slot else f"rank {slot} (says it is {claimed})"
            host = f" ({hosts[slot]})" if several and hosts.get(slot) else ""
            self._name_process(slot + 1, f"{before}{rank}{host}", slot + 1)
            used = self._lanes[slot].used if slot in self._lanes else {0: 1}
            for thread, lanes in sorted({0: 1, **used}.items()):
                for lane in range(lanes):
                    self._name_thread(slot, thread, lane)

    def _name_process(self, number: int, name: str, place: int) -> None:
        pid = self._pid + number
        said = json.dumps(safe(name, longest=LONGEST_NAME))
        self._out.event(f'{{"ph":"M","name":"process_name","pid":{pid},"tid":0,"args":{{"name":{said}}}}}')
        sort = f'"args":{{"sort_index":{self._pid + place}}}'
        self._out.event(f'{{"ph":"M","name":"process_sort_index","pid":{pid},"tid":0,{sort}}}')

    def _name_thread(self, slot: int, thread: int, lane: int) -> None:
        name = "main thread" if thread == 0 else f"thread {thread}"
        name += f" ({lane + 1})" if lane else ""
        place = self._place(slot, thread, lane)
        self._out.event(f'{{"ph":"M","name":"thread_name",{place},"args":{{"name":"{name}"}}}}')
        sort = f'"args":{{"sort_index":{thread * (LANES_MAX + 1) + lane}}}'
        self._out.event(f'{{"ph":"M","name":"thread_sort_index",{place},{sort}}}')

    def _place(self, slot: int, thread: int, lane: int) -> str:
        """The process and thread of an event. No two threads of a trace have the same number."""
        pid = self._pid + slot + 1
        return f'"pid":{pid},"tid":{pid * _TIDS_OF_RANK + thread * (LANES_MAX + 1) + lane}'

    def _us(self, t_s: float) -> float:
        return max(0.0, (t_s - self._zero_s) * 1e6)

    # ------------------------------------------------------------ operations and instants

    def _write_operations(self, slot: int, rows: Rows) -> None:
        lanes = self._lanes[slot]
        said = [_form_text(form) for form in self._recorded.forms]
        places: dict[tuple[int, int], str] = {}
        waited: _Waited = {}
        for row, form in enumerate(rows.form):
            lane, thread = lanes.lane[row], lanes.thread(row)
            key = (thread, 0 if lane == NO_LANE else lane)
            place = places.get(key) or places.setdefault(key, self._place(slot, *key))
            entered_s, ended_s = rows.entered_s[row], lanes.ended_s(row)
            last = self._meetings.last(form, rows.nth[row])
            waiting = self._waiting(slot, entered_s, ended_s, last, waited) if last is not None else ""
            name, arguments = said[form]
            how = _HOW[rows.how[row]] if 0 <= rows.how[row] < len(_HOW) else _HOW[0]
            kind = (
                '"ph":"i","s":"t"'
                if lane == NO_LANE
                else f'"ph":"X","dur":{_lasting(entered_s, ended_s):.3f}'
            )
            self._out.event(
                f'{{{kind},{name},{place},"ts":{self._us(entered_s):.3f},"args":{{"nth":{rows.nth[row]},'
                f'"step":{rows.step[row]},"seq":{rows.seq[row]},{arguments},"ended":"{how}"{waiting}}}}}'
            )

    def _waiting(
        self,
        slot: int,
        entered_s: float,
        ended_s: float,
        last: Last,
        waited: dict[int | tuple[int, ...], str],
    ) -> str:
        """How long it waited there for others, and for whom."""
        until_s = ended_s if last.absent else min(last.entered_s, ended_s)
        waiting_s = max(0.0, until_s - entered_s)
        if waiting_s == 0.0 or (last.slot == slot and not last.absent):
            return ',"waiting_s":0'
        who = last.absent or last.slot
        if who not in waited:
            ranks = last.absent or (self._rank_of.get(last.slot, last.slot),)
            waited[who] = ranks_of(ranks) + (", which never came" if last.absent else "")
        return f',"waiting_s":{waiting_s:.6f},"waited_for":"{waited[who]}"'

    def _write_instant(self, event: Event) -> None:
        name = name_of(event)
        if not name or not math.isfinite(event.t_s):
            return
        arm = event.slot < 0
        place = self._place(-1 if arm else event.slot, 0, 0)
        scope = "g" if arm else "p"
        values = json.dumps({key: _safe_value(value) for key, value in values_of(event).items()})
        kind = "fault" if isinstance(event, Injected) else "event"
        said = f'"name":{json.dumps(safe(name, longest=LONGEST_NAME))},"cat":"{kind}"'
        self._out.event(
            f'{{"ph":"i","s":"{scope}",{said},{place},"ts":{self._us(event.t_s):.3f},"args":{values}}}'
        )

    # ------------------------------------------------------------ arrows

    def _write_waits(self) -> None:
        for last, slot, row in self._meetings.waits(ARROWS_MAX):
            begin = self._inside(last.slot, last.row, last.entered_s)
            end = self._inside(slot, row, last.entered_s)
            if begin is not None and end is not None:
                self._arrow(begin, end, "waited for")

    def _write_sends(self) -> None:
        for (sender, send), (receiver, recv) in sent(
            self._recorded, {rank: slot for slot, rank in self._rank_of.items()}
        ):
            rows, lanes = self._recorded.rows[receiver], self._lanes.get(receiver)
            if lanes is None:
                continue
            begin = self._inside(sender, send, self._recorded.rows[sender].entered_s[send])
            arrived_s = lanes.ended_s(recv) if rows.how[recv] else rows.entered_s[recv]
            end = self._inside(receiver, recv, arrived_s)
            if begin is not None and end is not None:
                self._arrow(begin, end, "sent")

    def _arrow(self, begin: tuple[str, float], end: tuple[str, float], name: str) -> None:
        """An arrow, unless clocks that differ would have it end before it begins."""
        if begin[1] <= end[1] + 2 * _INSIDE_US:
            end_us = max(begin[1], end[1])
            self._out.arrow(f'{begin[0]},"ts":{begin[1]:.3f}', f'{end[0]},"ts":{end_us:.3f}', name)

    def _inside(self, slot: int, row: int, t_s: float) -> tuple[str, float] | None:
        """The place of an operation, and a moment near ``t_s`` in it; None where it is not drawn."""
        lanes = self._lanes.get(slot)
        if lanes is None or lanes.lane[row] == NO_LANE:
            return None
        begin_us = self._us(self._recorded.rows[slot].entered_s[row])
        end_us = begin_us + _lasting(self._recorded.rows[slot].entered_s[row], lanes.ended_s(row))
        margin = min(_INSIDE_US, (end_us - begin_us) / 2)
        moment = min(max(self._us(t_s), begin_us + margin), end_us - margin)
        return self._place(slot, lanes.thread(row), lanes.lane[row]), moment


def _span(recorded: Recorded) -> tuple[float, float]:
    """The first and the last moment of a history."""
    first = [rows.entered_s[0] for rows in recorded.rows.values() if rows.entered_s]
    last = [rows.entered_s[-1] for rows in recorded.rows.values() if rows.entered_s]
    times = [t for t in (*first, *last, *(e.t_s for e in recorded.events)) if math.isfinite(t)]
    return (min(times), max(times)) if times else (0.0, 0.0)


def _lasting(entered_s: float, ended_s: float) -> float:
    """Microseconds; never none, or nothing could be seen of it."""
    return max((ended_s - entered_s) * 1e6, 0.001)


def _form_text(form: Form) -> tuple[str, str]:
    """What all operations of one form have alike: the name with its category, and arguments."""
    name = safe(form.op, longest=LONGEST_NAME)
    category = "init" if form.op == "init" else "send" if form.peer >= 0 else "collective"
    said = {"group": form.group, "site": form.site, "shape": form.shape, "dtype": form.dtype}
    arguments: dict[str, str | int] = {k: safe(v, longest=LONGEST_NAME) for k, v in said.items() if v}
    if form.peer >= 0:
        arguments["peer"] = f"rank {form.peer}"
    text = json.dumps(arguments, separators=(",", ":"))[1:-1] or '"group":""'
    return f'"name":{json.dumps(name)},"cat":"{category}"', text


def _safe_value(value: object) -> object:
    if isinstance(value, str):
        return safe(value, longest=1000)
    if isinstance(value, list):
        return [safe(str(v), longest=LONGEST_NAME) for v in value[:100]]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
