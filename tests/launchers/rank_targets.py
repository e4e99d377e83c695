"""What the ranks of the launcher's tests run. Each is ``target(plan, slot, channels)`` and never returns."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from chaoskit.guards.group_kill import GroupKill
from chaoskit.guards.store_outside import StoreOutside
from chaoskit.model import Contract, Fault, Injection, Outcome, Plan, Profile, RankPlan, Trigger, Workload
from chaoskit.network import Order, plan_network
from chaoskit.rank.ordering import orderer


def connect_to_store(plan, slot, channels):
    """Print where this rank is, and reach the store by its name."""
    with socket.create_connection(("store", plan.master_port)):
        print(socket.gethostname())
        sys.stdout.flush()
        os._exit(0)


def order_crash(plan, slot, channels):
    _order(channels, slot, Order("crash", "hostB"))
    wait(plan, slot, channels)


def order_freeze(plan, slot, channels):
    _order(channels, slot, Order("freeze", "hostB"))
    wait(plan, slot, channels)


def order_short_freeze(plan, slot, channels):
    """Slot 2 is gone when its host stands still for a moment; slot 0 goes on for longer than it may."""
    show_others(channels, slot)
    wait_for_others(channels, b"RRR")
    if slot == 0:
        orderer(channels.orders, print)(Order("freeze", "hostB", for_s=0.05))
        time.sleep(HOST_SILENT_S + 0.5)
    os._exit(0)


def order_reboot(plan, slot, channels):
    _order(channels, slot, Order("crash", "hostB", for_s=0.05))
    wait(plan, slot, channels)


def order_crash_of_the_store(plan, slot, channels):
    _order(channels, slot, Order("crash", "store"))
    wait(plan, slot, channels)


def _order(channels, slot, order):
    """The last rank orders it once all are there."""
    show_others(channels, slot)
    if slot == 2:
        wait_for_others(channels, b"RRR")
        orderer(channels.orders, print)(order)


def finish(plan, slot, channels):
    print(f"slot {slot} here")
    print(f"slot {slot} complains", file=sys.stderr)
    sys.stdout.flush()
    os._exit(0)


def wait(plan, slot, channels):
    while True:
        signal.pause()


def say_ready(channels):
    """Wake the test: what it waits for is done."""
    os.write(channels.doorbell, b"r")


def show_others(channels, slot):
    """Mark the memory that all ranks share (no test reads it as a recorder's)."""
    if channels.memfd >= 0:
        os.pwrite(channels.memfd, b"R", 1_000 + slot)


def wait_for_others(channels, marks):
    while os.pread(channels.memfd, len(marks), 1_000).replace(b"\0", b"-") != marks:
        os.sched_yield()


def fail_one(plan, slot, channels):
    """Slot 1 fails, the others wait for good."""
    if slot == 1:
        os._exit(3)
    wait(plan, slot, channels)


def swallow_sigterm(plan, slot, channels):
    """As fail_one, with ranks that a SIGTERM does not end; slot 1 fails once they are ready for it."""
    if slot == 1:
        wait_for_others(channels, b"R-R")
        os._exit(3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    show_others(channels, slot)
    wait(plan, slot, channels)


def die_by_own_sigkill(plan, slot, channels):
    os.kill(os.getpid(), signal.SIGKILL)


def stop_itself(plan, slot, channels):
    if slot == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    wait(plan, slot, channels)


def leave_a_daemon(plan, slot, channels):
    """A double fork into a session of its own that outlives the rank and holds its output open."""
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(reader)
            os.write(writer, b"r")
            os.close(writer)
            wait(plan, slot, channels)
        os._exit(0)
    os.read(reader, 1)
    os.waitpid(between, 0)  # else it might be a leftover, too
    os._exit(0)


def leave_a_brief_child(plan, slot, channels):
    """A child that outlives the rank for a moment, as data loaders do."""
    parent = os.getpid()
    if os.fork() == 0:
        pidfd = os.pidfd_open(parent)
        import select

        select.select([pidfd], [], [])
        os._exit(0)
    os._exit(0)


def close_everything(plan, slot, channels):
    os.closerange(0, 1000)
    os._exit(5)


def raise_(plan, slot, channels):
    raise LookupError("the target is broken")


def flood(plan, slot, channels):
    """Slot 0 prints without end, slot 1 ends once much has been printed."""
    if slot == 0:
        line = b"x" * 65536
        for _ in range(128):
            os.write(1, line)
        say_ready(channels)
        while True:
            os.write(1, line)
    wait(plan, slot, channels)


def kill_the_warden(plan, slot, channels):
    """Everything nasty, then slot 3 kills its parent."""
    if slot == 3:
        wait_for_others(channels, b"RRR")
        os.kill(os.getppid(), signal.SIGKILL)
    nasty(plan, slot, channels)


def order_the_warden_to_end(plan, slot, channels):
    os.kill(os.getppid(), signal.SIGTERM)
    wait(plan, slot, channels)


def stop_the_warden(plan, slot, channels):
    os.kill(os.getppid(), signal.SIGSTOP)
    say_ready(channels)
    wait(plan, slot, channels)


def nasty(plan, slot, channels):
    """What has to be gone afterwards: daemons, stopped processes, swallowed signals, programs, threads."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            if slot % 2:
                subprocess.Popen(["sleep", "1000"])
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    show_others(channels, slot)
    if slot == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    while slot == 1:
        os.write(1, b"y" * 4096)
    wait(plan, slot, channels)


def fork_on_and_on(plan, slot, channels):
    """A chain in which each process lives until its child does."""
    say_ready(channels)
    while True:
        reader, writer = os.pipe()
        if os.fork():
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        os.close(reader)
        os.setsid()
        os.write(writer, b"r")
        os.close(writer)


def show_process(plan, slot, channels):
    """Print what a rank finds itself to be."""
    shown = {
        "session": os.getsid(0) == os.getpid(),
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
        "stdin": os.readlink("/proc/self/fd/0"),
        "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "sigterm": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "sigchld": signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "dir": os.getcwd(),
        "name": Path("/proc/self/comm").read_text().strip(),
        "variable": os.environ.get("CHAOSKIT_TEST_VARIABLE"),
        "prepared": os.environ.get("CHAOSKIT_TEST_PREPARED"),
    }
    shown["given"] = sorted((channels.memfd, channels.doorbell, channels.release))
    print(repr(shown))
    sys.stdout.flush()
    os._exit(0)


def connect_to_slot_0(plan, slot, channels):
    """Loopback works: slot 0 listens on a fixed port, which is free in a network of its own."""
    listener = socket.create_server(("127.0.0.1", 29500))
    with socket.create_connection(listener.getsockname()):
        os._exit(0)


def show_open_files(plan, slot, channels):
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    sys.stdout.flush()
    os._exit(0)


def compute_with_torch(plan, slot, channels):
    import torch

    print((os.environ["OMP_NUM_THREADS"], torch.arange(1000.0).sum().item()))
    sys.stdout.flush()
    os._exit(0)


def show_cuda(plan, slot, channels):
    import torch

    from chaoskit.launchers.server_main import _ONLY_FOR_LOADING

    left = [name for name in _ONLY_FOR_LOADING if name in os.environ]
    found = {"initialized": torch.cuda.is_initialized(), "bad_fork": torch.cuda._is_in_bad_fork()}
    print({**found, "only_for_loading": left})
    sys.stdout.flush()
    os._exit(0)


# ---------------------------------------------------------------------------------------- plans


def _plan(*guards, faults=()):
    return Plan(
        scenario="s", arm="a", backend="gloo", seed=1, repeat=1, attempt=1,
        profile=Profile("p", guards=guards), time_scale=1.0, workload=Workload("none"),
        ranks=tuple(RankPlan(slot, ()) for slot in range(3)),
        injections=tuple(Injection(fault, Trigger("launch")) for fault in faults),
        contract=Contract(Outcome.FAILED), hardened_contract=Contract(Outcome.FAILED), healthy=False,
        bound_s=None, production_bound_s=None, deadline_s=1.0, start_limit_s=1.0, expected_result=None,
        master_port=29500, gated=False, rerun="",
    )  # fmt: skip


def plan_kill_at_once(text):
    return _plan(GroupKill(signal="SIGKILL"))


def plan_sigterm_first(text):
    return _plan(GroupKill(signal="SIGTERM", grace_s=0.2))


def plan_on_stopped(text):
    return _plan(GroupKill(signal="SIGKILL", on_stopped=True, stopped_wait_s=0.1))


class _Undo:
    def __init__(self, path):
        self.path = path

    def oom_kills(self):
        return 1

    def __call__(self):
        self.path.write_text("cleaned up")


@dataclass(frozen=True, slots=True)
class _Prepared(Fault):
    rank = "all"
    path: str
    broken: bool = False

    def prepare(self, arm_id, plan):
        os.environ["CHAOSKIT_TEST_PREPARED"] = arm_id
        if self.broken:
            raise OSError("cannot prepare")
        return _Undo(Path(self.path))


HOST_SILENT_S = 3.0
"""What an order does to a host has to be over by then, also where the switch is kept from its work."""


def plan_on_hosts(text, store_silent_s=HOST_SILENT_S):
    """Slots 0 and 1 on hostA, slot 2 on hostB, the store on a host of its own."""
    network = plan_network(2, (), "", outside_store=True)
    ranks = tuple(RankPlan(slot, (), (), host) for slot, host in enumerate(("hostA", "hostA", "hostB")))
    kill = GroupKill(signal="SIGKILL", host_silent_s=HOST_SILENT_S)
    plan = _plan(kill, StoreOutside(silent_s=store_silent_s, grace_s=0.2))
    return dataclasses.replace(plan, network=network, ranks=ranks)


def plan_on_hosts_with_an_impatient_store(text):
    return plan_on_hosts(text, store_silent_s=0.2)


def plan_on_hosts_with_a_switch_that_ends(text):
    """As if it was killed while it builds. In the warden, which ends with the arm."""
    from chaoskit.hosts import switch

    switch.run = lambda network, wiring: os.kill(os.getpid(), signal.SIGKILL)
    return plan_on_hosts(text)


def plan_on_hosts_that_cannot_be(text):
    plan = plan_on_hosts(text)
    first, *others = plan.network.hosts
    broken = dataclasses.replace(first.nics[0], name="a name that is too long for a link")
    hosts = (dataclasses.replace(first, nics=(broken,)), *others)
    return dataclasses.replace(plan, network=dataclasses.replace(plan.network, hosts=hosts))


def plan_prepared(text):
    return _plan(faults=[_Prepared(text)])


def plan_that_cannot_be_prepared(text):
    return _plan(faults=[_Prepared(text), _Prepared(text, broken=True)])
