"""Puts the page together, arm by arm, within its size."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Final

from markupsafe import Markup

from chaoskit.arm_record import ArmRecord
from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.html import arm_view, rendering, settings, timeline
from chaoskit.reports.html.arm_view import Prepared, arm_name, badge
from chaoskit.reports.html.level import LEVELS, PAGE_BYTES, Room
from chaoskit.reports.html.views import ArmRow, ArmView, Head, ScenarioRows
from chaoskit.reports.judged import Judged, is_watch, result_in_words
from chaoskit.reports.wording import culprits_of, latency_of, outcome_of, plural, ranks_of, seconds, words

SUMMARY_BYTES: Final = PAGE_BYTES // 3
"""What the summary may take; scenarios beyond it are counted."""
TAIL_BYTES: Final = 60_000
"""Kept for the script and the end of the page."""
FILTER_FROM: Final = 8
"""Scenarios from which on one wants to search."""
OPEN_MAX: Final = 8
"""So few arms are all open; of more, those that passed are folded."""
_ORDER: Final = tuple(Result)
_BRIEF: Final = 400


class Page:
    """Writes one page. Knows the size of what is written and of what has to follow."""

    def __init__(self, judged: Judged, stream: IO[str], versions: Mapping[str, str]) -> None:
        self._judged = judged
        self._stream = stream
        self._versions = versions
        self._verdicts = judged.verdicts
        self._room = Room(PAGE_BYTES - TAIL_BYTES, self._verdicts)
        self._profiles: dict[settings.ProfileSettings, int] = {}
        self._profile_texts: list[Markup] = []
        self._left_out = 0
        self._names = [
            (judged.name_of(r), (judged.programs and is_watch(r) and "watched") or "")
            for r in judged.scenarios
            for _ in r.verdicts
        ]

    def write(self, arms: Iterable[ArmRecord]) -> None:
        """Write all of it. ``arms`` are read one at a time, in the order of the verdicts."""
        before, after = self._around()
        self._stream.write(before)
        self._room.left -= _size(before)
        records = iter(arms)
        for number, verdict in enumerate(self._verdicts, 1):
            record = next(records, None) or _lost(self._judged, verdict)
            text = self._arm(record, number)
            self._room.spend(_size(text))
            self._stream.write(text)
            del record  # before the next is read
        self._stream.write(rendering.rest(self._profile_texts, self._left_out) + after)

    # ------------------------------------------------------------ the top

    def _around(self) -> tuple[str, str]:
        judged = self._judged
        counts = Counter((r.result, result_in_words(r)) for r in judged.scenarios)
        rows, size = [], 0
        numbers = itertools.count(1)
        for result in judged.scenarios:
            row = _scenario_rows(result, numbers, judged.name_of(result))
            size += _rough_size(row)
            if size > SUMMARY_BYTES:
                break
            rows.append(row)
        return rendering.around(
            Head(
                title=f"chaoskit: {_title(judged)}",
                origin=tuple(self._origin()),
                counts=tuple(
                    (badge(r.value, said), counts[r, said])
                    for r, said in sorted(counts, key=lambda c: _ORDER.index(c[0]))
                ),
                scenarios=tuple(rows),
                left_out=len(judged.scenarios) - len(rows),
                interrupted=judged.interrupted,
                filters=len(rows) >= FILTER_FROM,
            )
        )

    def _origin(self) -> Iterator[str]:
        judged = self._judged
        yield f"{plural(len(judged.scenarios), 'scenario')}, {plural(len(self._verdicts), 'arm')}"
        if judged.wall_s > 0:
            yield f"took {seconds(judged.wall_s)}"
        yield "several seeds" if judged.seed is None else f"seed {judged.seed}"
        versions = dict(self._versions)
        if judged.torch:
            versions.setdefault("torch", judged.torch)
        yield from (f"{name} {version}" for name, version in versions.items() if version)
        yield f"run directory {judged.run_dir}"

    # ------------------------------------------------------------ arms

    def _arm(self, record: ArmRecord, number: int) -> str:
        room = self._room.share()
        if room < LEVELS[-1].least:
            return self._brief(record, number, room)
        prepared = arm_view.prepare(record)
        profile = self._profile(record)
        folded = record.verdict.status in (Status.PASS, Status.SKIPPED) and len(self._verdicts) > OPEN_MAX
        text = ""
        for level in (level for level in LEVELS if level.least <= room):
            view = arm_view.view(prepared, number, level, profile, folded)
            scenario, arm = self._names[number - 1]
            view = dataclasses.replace(
                view, no_timeline=_no_timeline(record), scenario=scenario, arm=arm or view.arm
            )
            text = rendering.arm(view)
            if _size(text) <= room * 0.6:
                return self._with_timeline(prepared, view, text, room)
        if _size(text) <= min(room, self._room.left):
            return text
        return self._brief(record, number, room)

    def _with_timeline(self, prepared: Prepared, view: ArmView, without: str, room: int) -> str:
        """The arm with as much of its timeline as there is room for."""
        left = room - _size(without)
        for part in (1.0, 0.6, 0.3):
            drawn = timeline.build(
                prepared.record, prepared.scene, prepared.marks, prepared.lanes, int(left * part)
            )
            if drawn is None:
                break
            if len(drawn.data) + 1000 <= left:
                return rendering.arm(dataclasses.replace(view, timeline=drawn))
        return without

    def _brief(self, record: ArmRecord, number: int, room: int) -> str:
        """What is left of an arm in a page with thousands: that it was there, and how it ended."""
        said = " · ".join(filter(None, arm_view.headline(record.verdict)))
        scenario, arm = self._names[number - 1]
        name = f"{scenario} / {arm or record.verdict.arm}"
        text = rendering.brief(badge(record.verdict.status), name, said[:_BRIEF], number)
        if _size(text) <= min(max(room, 0), self._room.left):
            return text
        self._left_out += 1
        return ""

    def _profile(self, record: ArmRecord) -> int:
        """The number of the arm's profile, which is shown once at the end of the page."""
        if record.plan is None:
            return 0
        found = settings.of_profile(record.plan.profile, record.plan.time_scale)
        if found not in self._profiles:
            text = rendering.profile(found, len(self._profiles) + 1)
            if _size(text) > self._room.left // 10:
                return 0
            self._profiles[found] = len(self._profiles) + 1
            self._profile_texts.append(text)
            self._room.left -= _size(text)
        return self._profiles[found]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _rough_size(row: ScenarioRows) -> int:
    """What the row takes in the page, or somewhat more."""
    texts = [row.name, row.name, row.reason]
    for arm in row.arms:
        texts += [arm.arm, arm.profile, arm.culprit, arm.victims, arm.said, arm.ended_by]
    return 400 + 1000 * len(row.arms) + sum(rendering.size_of(text) for text in texts)


def _title(judged: Judged) -> str:
    names = list(dict.fromkeys(judged.name_of(r) for r in judged.scenarios))
    if len(names) <= 2:
        return ", ".join(names) or "nothing was run"
    return plural(len(names), "scenario")


def _no_timeline(record: ArmRecord) -> str:
    if not record.recorded.rows and not record.recorded.events:
        skipped = record.verdict.status is Status.SKIPPED
        return "This arm was not run." if skipped else "There is no history to draw."
    return "The timeline is left out to keep the page small."


def _lost(judged: Judged, verdict: Verdict) -> ArmRecord:
    """An arm of which nothing but its verdict is known."""
    return ArmRecord(judged.run_dir, verdict, problems=("the files of this arm are not there",))


def _scenario_rows(result: ScenarioResult, numbers: Iterator[int], name: str) -> ScenarioRows:
    arms = tuple(_arm_row(v, next(numbers)) for v in result.verdicts)
    reason = result.reason
    for verdict in result.verdicts:
        if verdict.reason:
            reason = reason.removesuffix(verdict.reason)  # it stands with its arm
    fine = result.result in (Result.HELD, Result.NOT_NEEDED, Result.SKIPPED)
    return ScenarioRows(
        badge(result.result.value, result_in_words(result)),
        name,
        result.backend,
        reason.rstrip(": "),
        fine,
        arms,
    )


def _arm_row(verdict: Verdict, number: int) -> ArmRow:
    used = None
    if verdict.latency_s is not None and verdict.bound_s and " of " in latency_of(verdict):
        used = verdict.latency_s / verdict.bound_s
    sureness = words(verdict.sureness) if verdict.sureness is not None else ""
    culprit = culprits_of(verdict)
    said = verdict.cause or ("" if verdict.status is Status.PASS and verdict.culprits else verdict.reason)
    return ArmRow(
        number=number,
        linked=True,
        badge=badge(verdict.status),
        arm=arm_name(verdict),
        profile=verdict.profile,
        outcome=outcome_of(verdict),
        latency=latency_of(verdict),
        used=used,
        culprit=culprit,
        sureness="" if sureness in culprit else sureness,
        ended_by=" + ".join(verdict.ended_by),
        victims=ranks_of(verdict.victims) if verdict.victims else "",
        said=said,
    )
