"""What is right to say of a case: kinds, operations, lines. From the plan and the undisturbed program alone.

Each set is as narrow as the words of :class:`chaoskit.model.Kind` allow; why there is more than one is said
where it is. What no evidence could tell is not counted (None).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from _blame_cases import GROUP_KILL, RECOMMENDED, Case
from _blame_programs import SCRIPT, Op, Program

from chaoskit import workloads
from chaoskit.model import Kind, Operation, Phase
from chaoskit.registry import module_name

_DDP = ("ddp-train", "uneven-data")


@dataclass(frozen=True, slots=True)
class Truth:
    """``at`` and ``lines`` are None where they are not defined or cannot be known.

    ``undecidable``: two ranks part, and there is no third to tell who is right, so that naming both is right.
    """

    kinds: frozenset[Kind]
    at: frozenset[Operation] | None
    lines: frozenset[str] | None
    undecidable: bool = False


def of(case: Case, program: Program) -> Truth:
    if case.fault in _PARTING:
        return _parted(case, program)
    return Truth(_kinds(case), _missed(case, program), _line(case))


# ---------------------------------------------------------------- a rank that comes to no further operation


def _kinds(case: Case) -> frozenset[Kind]:
    chosen = dict(case.settings)
    match case.kind:
        case "kill":
            return frozenset({Kind.KILLED})
        case "stop":
            return frozenset({Kind.FROZEN})
        case "raise":
            return frozenset({Kind.EXCEPTION})
        case "leave-0":
            return frozenset({Kind.LEFT_EARLY})
        case "leave-n":
            return frozenset({Kind.EXITED})
        case "oom" if chosen["handler"] == "destroy-and-exit":
            # The script swallows the error, and ends by os._exit(1): that is all there is to see of it.
            return frozenset({Kind.OUT_OF_MEMORY, Kind.EXITED})
        case "oom":
            return frozenset({Kind.OUT_OF_MEMORY})
        case "sigterm":
            # A guard that saw the SIGTERM may say so; without one there is an exit 0 too early, and no more.
            told = {Kind.KILLED} if case.profile == RECOMMENDED else set()
            return frozenset({Kind.LEFT_EARLY, *told})
        case "late":
            return frozenset({Kind.LATE})
        case _:  # stall, hold-gil
            # It stands still, so FROZEN; where it was ended before anybody looked at it, there is only that
            # it never came.
            return frozenset({Kind.FROZEN, Kind.NEVER_ENTERED})


def _missed(case: Case, program: Program) -> frozenset[Operation] | None:
    """The first operation that the others entered, and the culprit did not enter, or not finish."""
    ops = program.ops[case.rank]
    index = _index(case, ops)
    phase = case.when.phase if case.when.kind == "collective" else Phase.BEFORE
    if index == 0 and phase is Phase.BEFORE:
        return None  # the forming of the group may still be under way on the others, and fails with it
    before = ops[: index + (phase is not Phase.BEFORE)]
    found = ops[index + 1] if phase is Phase.AFTER else ops[index]
    if found.between_two:
        return (
            None  # each end of it has a name of its own, and the whole chain of ranks waits, each in another
        )
    # An operation that was under way when the rank ended fails with it: which of the two was first, nobody
    # knows. Its peers may have seen it end.
    if any(o.overlapped for o in before[-1:]):
        return None
    named = {_operation(found)}
    goes_on = case.fault in ("stall", "hold-gil", "sigterm") or (case.fault, case.settings) == (
        "oom", (("handler", "destroy-and-exit"),)
    )  # fmt: skip
    inside = case.when.kind == "collective" and phase is Phase.DURING
    if goes_on and inside and index + 1 < len(ops):
        # The operation had been handed over, so the peers end it; the rank itself never comes out of it.
        named.add(_operation(ops[index + 1]))
    return frozenset(named)


def _index(case: Case, ops: Sequence[Op]) -> int:
    """Where in the rank's operations the trigger is: the operation it names, or the first one after it."""
    if case.op is not None:
        return ops.index(case.op)
    if case.when.kind == "call":
        return next(i for i, o in enumerate(ops) if o.step == case.when.nth and o.site == _first_of_call())
    step = case.when.step + 1 if case.when.kind == "step" else case.when.nth
    return next(i for i, o in enumerate(ops) if o.step == step)


def _line(case: Case) -> frozenset[str] | None:
    """The line that the fault fires in.

    Of a rank that ends between two operations without a word nothing tells whether it still stood at the line
    of the one or already at that of the next: the records are the same. So it is with one that stands still
    where a launcher's policy or a guard ends it before anybody looks at its stack.
    """
    ended_unseen = case.profile in (GROUP_KILL, RECOMMENDED) and case.kind in ("stop", "stall", "hold-gil")
    silent = (
        ended_unseen
        or case.kind in ("kill", "leave-0", "leave-n")
        or ("handler", "destroy-and-exit") in case.settings
    )
    if case.when.kind == "call":
        return None  # of the caller or of the function itself: both are as good
    if case.when.phase is Phase.AFTER and case.workload in _DDP:
        return None  # its reductions are done by the time that somebody asks, at another line
    if case.op is not None:
        inside = case.when.phase is Phase.DURING or not silent
        return frozenset({case.op.site}) if inside and case.op.site else None
    return None if silent or case.kind == "sigterm" else frozenset({_step_line(case.workload)})


def _step_line(workload: str) -> str:
    return _found(_source(workload), "optimizer.step()", "step_done(step)")


def _first_of_call() -> str:
    return _found(SCRIPT, "dist.all_reduce(parameter.grad)")


def _source(workload: str) -> Path:
    if workload == "script":
        return SCRIPT
    return Path(workloads.__file__).with_name(f"{module_name(workload)}.py")


def _found(file: Path, *texts: str) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(f"{file}:{n}" for n, line in enumerate(lines, 1) if line.strip() in texts)


# ---------------------------------------------------------------- a rank that goes on with other operations

_PARTING = frozenset({"skip", "extra", "swap", "reshape", "cast", "end-of-data"})


def _parted(case: Case, program: Program) -> Truth:
    whole = program.ops[case.rank]
    index = _index(case, whole)
    op = whole[index]
    group = program.in_group(case.rank, op.group)
    place = group.index(op)
    mine = _done(case, group, place)
    undecidable = len(op.members) == 2
    if case.fault in ("reshape", "cast"):
        kind = Kind.OTHER_SHAPE if case.fault == "reshape" else Kind.OTHER_DTYPE
        return Truth(frozenset({kind}), frozenset({_operation(op)}), frozenset({op.site}), undecidable)
    if whole[index + 1].group != op.group and case.fault in ("skip", "extra"):
        return _parted_across_groups(case, whole, index)
    seen = _first_visible(group, mine, place)
    at = {_operation(o) for row in (group, mine) for o in row[place : seen + 1]}
    return Truth(
        _kinds_of_parting(case, group, mine, seen), frozenset(at), _lines(case, group, mine, place, seen),
        undecidable,
    )  # fmt: skip


def _done(case: Case, group: Sequence[Op], place: int) -> tuple[Op, ...]:
    """What the culprit does in the group, counted as it counts."""
    match case.fault:
        case "skip":
            row = [*group[:place], *group[place + 1 :]]
        case "extra":
            row = [*group[: place + 1], *group[place:]]
        case "swap":
            row = [*group[:place], group[place + 1], group[place], *group[place + 2 :]]
        case "end-of-data":
            after = next(i for i, o in enumerate(group) if i > place and o.op == "barrier")
            row = [*group[:place], *group[after:]]
        case _:
            row = list(group)
    counts: dict[str, int] = defaultdict(int)
    found = []
    for op in row:
        counts[op.op] += 1
        found.append(replace(op, nth=counts[op.op]))
    return tuple(found)


def _first_visible(group: Sequence[Op], mine: Sequence[Op], place: int) -> int:
    """The first position at which the two do not look alike; operations in a row may all look the same."""
    for at in range(place, min(len(group), len(mine))):
        if group[at].fingerprint != mine[at].fingerprint:
            return at
    return min(len(group), len(mine))


def _kinds_of_parting(case: Case, group: Sequence[Op], mine: Sequence[Op], seen: int) -> frozenset[Kind]:
    kinds = {Kind.OTHER_COLLECTIVE}
    if seen >= len(mine):
        # All that followed looked alike, so that the others wait in one more than it ever enters.
        kinds.add(Kind.NEVER_ENTERED)
    elif seen < len(group) and (group[seen].op, group[seen].site) == (mine[seen].op, mine[seen].site):
        # A loop over tensors: the same operation on the same line, and nothing but its size differs.
        kinds.add(Kind.OTHER_SHAPE)
    return frozenset(kinds)


def _lines(
    case: Case, group: Sequence[Op], mine: Sequence[Op], place: int, seen: int
) -> frozenset[str] | None:
    """The call that was skipped, or made once more; of a swap both. Of a row that looks alike, any."""
    if case.fault == "end-of-data":
        return None  # the line that is wrong is where the data was divided
    row = mine if case.fault == "extra" else group
    lines = (
        {o.site for o in row[place : seen + 1]}
        if case.fault != "extra"
        else {o.site for o in row[place:seen]}
    )
    if case.fault == "swap":
        lines |= {group[place + 1].site}
    return frozenset(lines | {group[place].site})


def _parted_across_groups(case: Case, whole: Sequence[Op], index: int) -> Truth:
    """The next operation, which all enter, is of another group: nobody gets past it, whatever looks alike.

    Who skips sits in the wider operation while its peer waits in the narrower one, and the other way round
    with one too many: each of the two is missing in the operation that the other waits in. To skip the one
    and to call the other once more leave the same records, so both lines are right.
    """
    op, following = whole[index], whole[index + 1]
    undecidable = min(len(op.members), len(following.members)) == 2
    own = op if case.fault == "skip" else replace(op, nth=op.nth + 1)
    kinds = frozenset({Kind.OTHER_COLLECTIVE, Kind.NEVER_ENTERED, Kind.DEADLOCK})
    at = frozenset({_operation(own), _operation(following)})
    return Truth(kinds, at, frozenset({op.site, following.site}), undecidable)


def _operation(op: Op) -> Operation:
    return Operation(op.op, op.group, op.nth)
