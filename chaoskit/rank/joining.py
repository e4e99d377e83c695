"""How a process that somebody else started becomes a rank of an arm: by its plan and what lies beside it.

On the runner's machine the offer beside the plan names the runner's shared memory, so the runner sees the
rank live. Anywhere else (another machine, a pod, a runner that has gone) the rank writes files of the same
layout into ``rank<N>/`` of a folder of its own, and ``chaoskit judge`` reads them later. Standard library
only.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from chaoskit import private
from chaoskit.faults import RankFault
from chaoskit.gpu import sharing
from chaoskit.model import Plan
from chaoskit.rank import region
from chaoskit.rank.region import RANK_FILE, Channels
from chaoskit.secret_shapes import HIDDEN

OFFER: Final = "offer.json"
PLAN_MEMORY: Final = "chaoskit-plan"
KEEPER_FILE: Final = "keeper.region"
FOLDER_VARIABLE: Final = "CHAOSKIT_DIR"
SLOT_VARIABLES: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
"""Who a process is, as torchrun, Slurm, Open MPI and MPICH say it. The first that is set counts."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The runner's process and its descriptors, which others of the same user open through /proc."""

    pid: int
    memfd: int
    doorbell: int
    plan: int = -1  # a memory file with the plan as the runner made it: the one on disk has no secrets


@dataclass(frozen=True, slots=True)
class Joined:
    """Where the rank and its keeper write. ``folder`` is "" where the runner sees both live."""

    slot: int
    rank: Channels
    keeper: Channels
    folder: str = ""


def offer(arm_dir: Path, made: Offer) -> None:
    """Let ranks on this machine join live."""
    private.write(arm_dir / OFFER, json.dumps(asdict(made)))


def withdraw(arm_dir: Path) -> None:
    """The arm is over; a later process must not look for the runner's memory."""
    with contextlib.suppress(OSError):
        (arm_dir / OFFER).unlink(missing_ok=True)


def slot_of(environment: Mapping[str, str]) -> int | None:
    """Return which of the ranks this process is, None where no launcher says so."""
    for name in SLOT_VARIABLES:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def plan_text(plan_path: str) -> str:
    """Return the plan as the runner made it where that is on this machine, else as it is in the file, without
    secrets. Raises OSError."""
    made = _offered(Path(plan_path).resolve().parent)
    if made is not None:
        memory = f"/proc/{made.pid}/fd/{made.plan}"
        with contextlib.suppress(OSError, ValueError):
            if PLAN_MEMORY in os.readlink(memory):  # that number may belong to something else by now
                return Path(memory).read_text(encoding="utf-8")
    return Path(plan_path).read_text(encoding="utf-8")


def join(plan_path: str, ranks: int, slot: int, folder: str = "") -> Joined:
    """Open what process ``slot`` writes to. Raises OSError where neither way can be had.

    ``folder`` asks for files there; else the offer beside the plan is taken, then files beside the plan.
    """
    beside = Path(plan_path).resolve().parent
    if not folder and (live := _live(beside, ranks, slot)) is not None:
        return live
    target = Path(folder) if folder else beside
    own = target / f"rank{slot}"
    private.folder(target)
    private.folder(own)
    if target != beside:
        private.write(target / "plan.json", Path(plan_path).read_text(encoding="utf-8"))
    rank, keeper = _file(own / RANK_FILE), _file(own / KEEPER_FILE)
    return Joined(slot, Channels(rank, 0, folder=str(target)), Channels(keeper, 0), str(target))


def _offered(beside: Path) -> Offer | None:
    try:
        return Offer(**json.loads((beside / OFFER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _live(beside: Path, ranks: int, slot: int) -> Joined | None:
    made = _offered(beside)
    if made is None:
        return None
    try:
        memfd = os.open(f"/proc/{made.pid}/fd/{made.memfd}", os.O_RDWR | os.O_CLOEXEC)
        doorbell = os.open(f"/proc/{made.pid}/fd/{made.doorbell}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(memfd).st_size != 2 * ranks * region.REGION_BYTES or slot >= ranks:
        return None  # that number belongs to something else by now
    return Joined(slot, Channels(memfd, slot, doorbell), Channels(memfd, ranks + slot, doorbell))


def _file(path: Path) -> int:
    """Make the file anew: what an earlier attempt left is not this one's."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.posix_fallocate(fd, 0, region.REGION_BYTES)
    return fd


@dataclass(frozen=True, slots=True)
class Files:
    """What ranks and keepers wrote, by slot; ``doubts`` says which of it cannot be had, or is another's."""

    ranks: dict[int, bytes] = field(default_factory=dict)
    keepers: dict[int, bytes] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


def read_files(folder: Path) -> Files:
    """Return what ranks and keepers have written into files of ``folder``. What is damaged is left out."""
    found = Files()
    for path in sorted(folder.glob("rank*")):
        number = path.name.removeprefix("rank")
        if not (number.isascii() and number.isdecimal() and str(int(number)) == number):
            continue
        if not any(os.path.lexists(path / name) for name in (RANK_FILE, KEEPER_FILE)):
            continue  # it wrote into the runner's memory
        for name, into in ((RANK_FILE, found.ranks), (KEEPER_FILE, found.keepers)):
            try:
                into[int(number)] = _own(path / name, int(number))
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                found.doubts.append(f"{path.name}/{name} cannot be judged: {why}")
    return found


def _own(path: Path, slot: int) -> bytes:
    """Return the region in the file. Raises OSError, or ValueError where it is none or not that slot's."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO would wait for its writer
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is no regular file")
        body = file.read(region.REGION_BYTES + 1)
    if len(body) != region.REGION_BYTES:
        raise ValueError(f"it should have {region.REGION_BYTES} bytes, and has {_more_or_less(len(body))}")
    if not region.is_readable(body):
        raise ValueError("it is damaged, or of another version of chaoskit")
    if others := region.slots_named(body) - {slot}:
        raise ValueError(f"it was written by rank {min(others)}")
    return body


def _more_or_less(size: int) -> str:
    return "more" if size > region.REGION_BYTES else str(size)


def release_all(memory: mmap.mmap) -> None:
    """The rank of this region is gone or stopped: whoever is held for it may go on."""
    words = memoryview(memory)[: region.HEADER_BYTES].cast("Q")
    words[region.Word.RELEASED] = 0xFFFF_FFFF_FFFF_FFFF
    words.release()


def set_environment(plan: Plan, slot: int) -> None:
    """Make the environment what the plan's launcher would have handed over: the profile's variables where
    nobody has set them, how ranks share GPUs, and what a fault of the launcher changes. Before torch is
    imported."""
    for name, value in plan.profile.env:
        if value != HIDDEN:
            os.environ.setdefault(name, value)
    os.environ.update((name, value) for name, value in plan.ranks[slot].env if name in sharing.OURS)
    for injection in plan.injections:
        fault = injection.fault
        if injection.when.kind != "launch" or not isinstance(fault, RankFault) or not fault.targets(slot):
            continue
        changed = dict(os.environ)
        fault.environment(changed)
        for name in set(os.environ) - set(changed):
            del os.environ[name]
        os.environ.update(changed)
