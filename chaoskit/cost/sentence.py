"""What a comparison comes to, in one sentence that can be quoted. Pure.

It never says more than was measured: an interval that holds 1 is no difference, whatever the ratio; a
time that a shortened timeout stands for is called *about*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from chaoskit.cost.telling import is_noisy, untold
from chaoskit.cost.values import Case, Comparison, Detection, Estimate

TIMES_FROM: Final = 2.0
"""From this ratio on a price is told as times, not as a percentage."""
LONGER: Final = ": a longer --budget helps"
QUIETER: Final = ": a longer --budget or a quieter machine helps"
_BRIEF_MAX: Final = 160
_SOONER_S, _SOONER_SHARE = 1.0, 0.1
"""Less of a difference between two times of detection, each from one run, is none to speak of."""

FAULTS: Final = {
    "rank-killed-mid-all-reduce": "a killed rank",
    "rank-stopped": "a stopped rank",
    "rank0-skips-barrier": "a skipped collective",
    "rank-holds-gil": "a rank stuck in native code",
}
"""The scenarios in which detection is timed, and how a sentence calls what happens in each."""


def percent(share: float, signed: bool = False) -> str:
    """Return a share as a percentage of sensible length: ``0.06 %``, ``3.1 %``, ``48 %``."""
    value = share * 100
    size = abs(value)
    digits = 2 if size < 0.995 else 1 if size < 9.95 else 0
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return f"{'0' if float(text) == 0 else text} %"


def interval(estimate: Estimate, *, times: bool = False) -> str:
    """Return the interval as it stands behind a figure: ``[2.8, 3.4]`` per cent, or times."""
    if times:
        return f"[{estimate.low:.2f}, {estimate.high:.2f}]"
    low, high = (percent(end - 1.0).removesuffix(" %") for end in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def cost(estimate: Estimate) -> str:
    """Return ``3.1 % [2.8, 3.4]``, or ``2.41 × [2.35, 2.50]``."""
    if estimate.ratio >= TIMES_FROM:
        return f"{estimate.ratio:.2f} × {interval(estimate, times=True)}"
    return f"{percent(estimate.ratio - 1.0)} {interval(estimate)}"


def beyond(estimate: Estimate) -> float:
    """Return the share beyond which a difference would have been seen."""
    return max(abs(estimate.high - 1.0), abs(1.0 - estimate.low))


def where(case: Case) -> str:
    """Return what was timed, as the end of a sentence."""
    match case.kind:
        case "program":
            return f"on your program {case.name}"
        case "ddp":
            return f"on a DDP model ({case.name.removeprefix('ddp ')})"
        case _:
            return f"in {case.name}"


def price(comparison: Comparison) -> str:
    """Return what one comparison says of throughput, without who says it where."""
    estimate = comparison.estimate
    if estimate is None:
        return f"could not be timed {where(comparison.case)}: {brief(comparison.problem)}"
    at = where(comparison.case)
    if why := untold(estimate):
        return f"{why} {at}{QUIETER if is_noisy(estimate) else LONGER}"
    if not estimate.is_difference:
        return f"no difference measurable beyond {percent(beyond(estimate))} {at}"
    if estimate.ratio < 1.0:
        return f"saves {_saving(estimate)} {at}"
    if estimate.ratio >= TIMES_FROM:
        return f"takes {cost(estimate)} the time {at}"
    return f"costs {cost(estimate)} {at}"


def _saving(estimate: Estimate) -> str:
    """Return ``10 % [7.0, 12]``, of the plain time."""
    low, high = (percent(1.0 - end).removesuffix(" %") for end in (estimate.high, estimate.low))
    return f"{percent(1.0 - estimate.ratio)} [{low}, {high}]"


def brief(problem: str) -> str:
    """Return the begin of what is wrong, up to where a rank's own words follow."""
    first = problem.partition("; ")[0].rstrip(".")
    return first if len(first) <= _BRIEF_MAX else first[: _BRIEF_MAX - 1].rstrip() + "…"


def sentence(comparisons: Sequence[Comparison], detections: Sequence[Detection] = ()) -> str:
    """Return the one sentence on a treatment: ``comparisons`` are all of its own, at least one."""
    first = comparisons[0]
    timed = [c for c in comparisons if c.estimate is not None]
    if not timed:
        return f"{_upper(first.says)} {price(first)}."
    steps = [c for c in timed if c.case.kind != "collective"]  # what a job is made of says most
    told = steps or timed
    body = price(told[0]) if len(told) == 1 else _over_many(told)
    lost = len(comparisons) - len(timed)
    left_out = f" ({lost} of {len(comparisons)} could not be timed)" if lost else ""
    faster = shortening(first.treatment, first.against, detections)
    names_itself = body.startswith(("costs ", "takes ", "saves "))
    if names_itself:
        return f"On this machine, {first.says} {body}{left_out}{faster}."
    faster = f"; {first.says} {faster.removeprefix(', and ')}" if faster else ""
    return f"On this machine, {first.says}: {body}{left_out}{faster}."


def _over_many(timed: Sequence[Comparison]) -> str:
    """What many sizes or models come to: the most that any may cost, and what the others would have shown."""
    found = [(c, c.estimate) for c in timed if c.estimate is not None and not untold(c.estimate)]
    silent = len(timed) - len(found)
    nothing = f"of {silent} of {len(timed)} cases nothing can be said (too few starts, or too noisy)"
    if not found:
        return nothing + QUIETER
    seen = [(c, e) for c, e in found if e.is_difference]
    unseen = [beyond(e) for _, e in found if not e.is_difference]
    behind = f"; {nothing}" if silent else ""
    if not seen:
        cases = f"any of {len(found)} cases" if len(found) > 1 else found[0][0].case.name
        return f"no difference measurable beyond {percent(max(unseen))} in {cases}{behind}"
    none = f"; in {len(unseen)} of {len(timed)} cases no difference is measurable beyond " if unseen else ""
    return _most(seen) + (none + percent(max(unseen)) if unseen else "") + behind


def _most(seen: Sequence[tuple[Comparison, Estimate]]) -> str:
    """The largest upper end of all intervals, with the figure it belongs to: a point is no bound."""
    dearest, most = max(seen, key=lambda one: one[1].high)
    if most.ratio >= 1.0:
        bound = f"{most.high:.2f} × the time" if most.high >= TIMES_FROM else percent(most.high - 1.0)
        verb = "takes" if most.high >= TIMES_FROM else "costs"
        return f"{verb} at most {bound} ({cost(most)} {where(dearest.case)})"
    cheapest, least = min(seen, key=lambda one: one[1].low)
    return f"saves at most {percent(1.0 - least.low)} ({_saving(least)} {where(cheapest.case)})"


# ---------------------------------------------------------------- detection


def shortening(treatment: str, against: str, detections: Sequence[Detection]) -> str:
    """Return how much sooner a job ends under ``treatment``, as the end of a sentence; '' where that was not
    run."""
    mine = {d.scenario: d for d in detections if d.treatment == treatment}
    plain = {d.scenario: d for d in detections if d.treatment == against}
    pairs = [(mine[name], plain[name]) for name in mine if name in plain]
    if not pairs:
        return ""
    said = [*_sooner(pairs), *_ended_at_all(pairs), *_worse(pairs)]
    if said:
        return "".join(f", and {one}" for one in said)
    if all(m.production_s is None for m, _ in pairs):
        return ", and ends none of the jobs with a fault"
    return ", and shortens no detection"


Pairs = Sequence[tuple[Detection, Detection]]


def _sooner(pairs: Pairs) -> list[str]:
    """Of jobs that end either way: the one that ends sooner by most."""
    gains = [(_gain_s(m, p), m, p) for m, p in pairs]
    if not gains or max(gains, key=lambda one: one[0])[0] <= 0:
        return []
    gain_s, mine, plain = max(gains, key=lambda one: one[0])
    about = _extrapolated(mine, plain)
    by = f"{'about ' if about else ''}{duration(gain_s, rough=about)}"
    return [f"shortens detection by {by} ({_fault(mine)}: {when(mine)} instead of {when(plain)})"]


def _ended_at_all(pairs: Pairs) -> list[str]:
    """Jobs that did not end by themselves without the treatment."""
    found = [m for m, p in pairs if m.production_s is not None and did_not_end(p)]
    if not found:
        return []
    jobs = "a job that did" if len(found) == 1 else f"{len(found)} jobs that did"
    return [f"ends {jobs} not end otherwise ({'; '.join(f'{_fault(m)}: {when(m)}' for m in found)})"]


def _worse(pairs: Pairs) -> list[str]:
    """Jobs that end later with the treatment, or no longer at all."""
    later = [m for m, p in pairs if _gain_s(m, p) < 0]
    lost = [m for m, p in pairs if did_not_end(m) and p.production_s is not None]
    said = [f"ends a job later ({'; '.join(f'{_fault(m)}: {when(m)}' for m in later)})"] if later else []
    return [*said, *([f"no longer ends a job with {', '.join(map(_fault, lost))}"] if lost else [])]


def _fault(detection: Detection) -> str:
    return FAULTS.get(detection.scenario, detection.scenario)


def _gain_s(mine: Detection, plain: Detection) -> float:
    """The seconds by which ``mine`` is sooner; 0 where the difference is none to speak of, or unknown."""
    if mine.production_s is None or plain.production_s is None:
        return 0.0
    gain_s = plain.production_s - mine.production_s
    least_s = max(_SOONER_S, _SOONER_SHARE * max(plain.production_s, mine.production_s))
    return gain_s if abs(gain_s) >= least_s else 0.0


def _extrapolated(*detections: Detection) -> bool:
    return any(is_extrapolated(d) for d in detections)


def is_extrapolated(detection: Detection) -> bool:
    """Return whether its production figure is more than what was measured."""
    return detection.production_s is not None and detection.production_s != detection.measured_s


def did_not_end(detection: Detection) -> bool:
    """Return whether the job was seen not to end: hung, or still busy; not where nothing was seen."""
    return detection.production_s is None and detection.outcome in ("hung", "overdue")


def when(detection: Detection) -> str:
    """Return how long the job went on: ``about 5.1 min``, ``0.2 s``, ``did not end``, or what came of it."""
    if detection.production_s is None:
        return "did not end" if did_not_end(detection) else detection.outcome or "unknown"
    about = is_extrapolated(detection)
    return ("about " if about else "") + duration(detection.production_s, rough=about)


def duration(seconds: float, rough: bool = False) -> str:
    """Return a duration for people: ``0.12 s``, ``62 s``, ``5.1 min``, ``2.5 h``; ``rough``: two digits."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    amount, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    text = f"{amount:.2g}" if rough else f"{amount:.3g}"
    return f"{float(text):g} {unit}"


def by_treatment(comparisons: Iterable[Comparison]) -> dict[str, list[Comparison]]:
    """Return the comparisons of each treatment, in their order."""
    found: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        found.setdefault(comparison.treatment, []).append(comparison)
    return found


def sentences(comparisons: Iterable[Comparison], detections: Sequence[Detection] = ()) -> tuple[str, ...]:
    """Return one sentence for each treatment."""
    return tuple(sentence(own, detections) for own in by_treatment(comparisons).values())


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
