"""What the programs of the accuracy benchmark do when nothing goes wrong: each rank's operations in order.

Read off one undisturbed run of each program with each number of ranks. Where a fault fires, and what is right
to say of it, follows from this and the plan, never from the run with the fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.history import Completed, Entered, Finished, History
from chaoskit.model import Arm, Expectation, Outcome, Scenario, Span, Topology, Workload

SCRIPT = Path(__file__).with_name("_blame_script.py").resolve()
SCRIPT_CALL = "__main__.average_gradients"
"""The function of the script around which faults fire; it begins with the first operation of a step."""
WORKLOADS: Mapping[str, Workload] = {
    "all-reduce-loop": Workload("all-reduce-loop", (("steps", 8),)),
    "ddp-train": Workload("ddp-train", (("steps", 9), ("checkpoint_every", 3))),
    "subgroups": Workload("subgroups", (("steps", 8),)),
    "uneven-data": Workload("uneven-data", (("steps", 10),)),
    "script": Workload(SCRIPT.name, kind="script", target=str(SCRIPT)),
}
WORLDS = (2, 3, 4, 5, 6)
SUBGROUP_WORLDS = (4, 5, 6)
"""The halves of fewer ranks have nobody to differ from."""


def worlds(workload: str) -> tuple[int, ...]:
    return SUBGROUP_WORLDS if workload == "subgroups" else WORLDS


@dataclass(frozen=True, slots=True)
class Op:
    """One operation that a rank enters; ``overlapped``: it enters another one before this has ended."""

    op: str
    group: str
    nth: int
    step: int
    site: str
    fingerprint: int
    shape: str
    members: tuple[int, ...]
    overlapped: bool = False

    @property
    def between_two(self) -> bool:
        return self.op in ("send", "recv")


@dataclass(frozen=True, slots=True)
class Program:
    """A workload with a number of ranks, and what each rank does. ``loader``: it draws from a DataLoader."""

    workload: str
    ranks: int
    ops: tuple[tuple[Op, ...], ...]  # by rank

    @property
    def loader(self) -> bool:
        return self.workload == "uneven-data"

    def in_group(self, rank: int, group: str) -> tuple[Op, ...]:
        """What all members of the group do together."""
        return tuple(o for o in self.ops[rank] if o.group == group and not o.between_two)

    def steps(self, rank: int) -> int:
        return max(o.step for o in self.ops[rank])


def undisturbed(name: str, workload: str, ranks: int) -> Scenario:
    """Return the scenario of one run without any fault."""
    done = Expectation((("gloo", Outcome.COMPLETED),), within=Span(30.0))
    arms = tuple(Arm(n, "torch-defaults", done) for n in ("control", "hardened"))
    return Scenario(
        name, "an undisturbed run", "benchmark", WORKLOADS[workload], Topology(ranks), injections=(),
        arms=arms, backends=("gloo",), healthy=True,
    )  # fmt: skip


def program_of(workload: str, ranks: int, history: History) -> Program:
    """Return what each rank did in an undisturbed run. Raises ValueError for one that was not."""
    everyone = tuple(range(ranks))
    found = tuple(_ops([e for e in history.events if e.slot == rank], everyone) for rank in everyone)
    if len(history.all(Finished)) != ranks or not all(found):
        raise ValueError(f"{workload} with {ranks} ranks did not run undisturbed")
    return Program(workload, ranks, found)


def _ops(events: Sequence[object], everyone: tuple[int, ...]) -> tuple[Op, ...]:
    ended = {e.seq: e.t_s for e in events if isinstance(e, Completed)}
    entered = [e for e in events if isinstance(e, Entered) and e.op != "init"]
    ops = []
    for at, e in enumerate(entered):
        overlapped = at + 1 < len(entered) and ended.get(e.seq, float("inf")) > entered[at + 1].t_s
        members = e.members or everyone
        ops.append(
            Op(e.op, e.group, e.nth, e.step, e.site, e.fingerprint, e.shape, members, overlapped)
        )  # fmt: skip
    return tuple(ops)
