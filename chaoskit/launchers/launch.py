"""What the runner asks a warden to do. A value; imports nothing heavy, as the server unpickles it too."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArmLaunch:
    """One arm to start. Descriptors are the caller's own and stay open and its to close.

    ``memfd`` holds a region per slot (see chaoskit.rank.region), ``doorbell`` is the write end of a pipe,
    ``release`` an eventfd that the warden writes when a rank has died or stopped; -1: not there. Output goes
    to ``arm_dir``/rank<slot>/{stdout,stderr}.log. ``isolate`` asks for a network namespace of its own; where
    that cannot be had, ArmStarted says so, and the ranks look names up in /etc/hosts alone.

    ``command`` is a launcher of the user's (torchrun, …) with exactly ``environment``: it starts the ranks,
    and each joins by the files beside its plan (see chaoskit.rank.joining). Its output goes to
    ``arm_dir``/launcher.

    ``temporary`` is a folder that forked ranks share for what multiprocessing keeps while it runs (sockets of
    DataLoader workers): a rank that is killed cannot remove it, so the warden does, at the end. A launcher
    of the user's is given it as TMPDIR.

    ``target`` and ``load_plan`` are ``module:function``. The plan is what ``load_plan`` makes of
    ``plan_text`` (of the file ``plan_path`` where that is empty), None where ``load_plan`` is "". The file
    holds no secrets, the text does; none of ``secrets`` gets into what is kept of the output. A rank runs
    ``target(plan, slot, channels)``, which must not return.
    """

    arm_dir: str
    ranks: int
    plan_path: str = ""
    memfd: int = -1
    doorbell: int = -1
    release: int = -1
    isolate: bool = True
    target: str = "chaoskit.rank.bootstrap:run_rank"
    load_plan: str = "chaoskit.codec:load_plan"
    leftover_grace_s: float = 1.0
    command: tuple[str, ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    temporary: str = ""
    plan_text: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def descriptors(self) -> tuple[int, int, int]:
        return (self.memfd, self.doorbell, self.release)
