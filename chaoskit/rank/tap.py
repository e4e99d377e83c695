"""Sees every collective of this rank, records it, and lets the faults of the plan fire at their moment.

The tap is the outermost listener of :mod:`chaoskit.intercept`, and is told of steps, phases and results by
:mod:`chaoskit.progress`. What it records is what the rank really issues: a call that a fault skipped was
never entered, one too many was. It may not judge, nor know what a fault does.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import distributed_c10d as c10d

from chaoskit import intercept
from chaoskit.faults import Moment
from chaoskit.history import Finished, Held, Injected, Malfunction, PhaseDeclared, Reached, Reported
from chaoskit.intercept import Call, Intercepted, user_site
from chaoskit.model import Phase
from chaoskit.network import Order
from chaoskit.rank.holder import Peers
from chaoskit.rank.moments import Moments
from chaoskit.rank.recorder import Entry, Recorder
from chaoskit.rank.region import Kind, Word
from chaoskit.rank.threads import Threads
from chaoskit.rank.triggers import Shot

if TYPE_CHECKING:
    from torch.distributed import Work

Proceed = Callable[[], "Work | None"]
_FAILED, _STEPPED = int(Kind.FAILED), int(Kind.STEPPED)
_now = time.monotonic_ns
_thread_id = threading.get_ident
_P2P = frozenset({"send", "recv"})


class Tap:
    """The listener of one rank. ``gate`` is called before each forming of a process group."""

    def __init__(
        self,
        recorder: Recorder,
        shots: list[Shot],
        peers: Peers,
        *,
        slot: int,
        rank: int,
        world_size: int,
        seed: int,
        network: Callable[[Order], None] = lambda _: None,
        gate: Callable[[], None],
    ) -> None:
        self._recorder = recorder
        self._put, self._enter, self._complete = recorder.put, recorder.enter, recorder.complete
        self._peers = peers
        self._slot, self._rank, self._world_size, self._seed = slot, rank, world_size, seed
        self._network = network
        self._gate = gate
        self._shots = shots
        self._by_op: dict[str, list[Shot]] = {}
        for shot in shots:
            if shot.when.kind == "collective":
                self._by_op.setdefault(shot.when.op, []).append(shot)
        if not self._by_op:  # no fault at a collective: a frame less for each
            self.around = self._issue  # type: ignore[method-assign]
        self._step = 0  # steps done
        self._seqs = count(1)
        self._inits = count(1)
        # By site, group, key of the call, and thread: the number of its form, and its fingerprint.
        self._forms: dict[tuple[tuple[str, int, str], str, tuple[Any, ...], int], tuple[int, int]] = {}
        self._threads = Threads()
        self._after: dict[int, list[Shot]] = {}
        self._deferred: list[Call] = []
        self._again = threading.local()  # .on: this thread issues a call for a fault
        self._phases: list[tuple[str, float]] = []
        self._init: Entry | None = None
        self._moments: Moments | None = None

    def start(self) -> None:
        """Prepare what has to be there before the script runs. Main thread only."""
        for shot in self._shots:
            if shot.holds:
                for slot in range(self._world_size):
                    if shot.fault.targets(slot):
                        self._peers.watch(slot)
                continue
            shot.fault.install(self._moment(shot, None))
            if shot.when.kind == "launch":
                self._injected(shot, None, submitted=False)
        self._moments = Moments((s for s in self._shots if not s.holds), self._fire)

    # ---------------------------------------------------------------- collectives

    def around(self, call: Call, proceed: Proceed) -> Work | None:
        if getattr(self._again, "on", False):
            return self._issue(call, proceed)
        shots = self._by_op.get(call.op)
        due = [s for s in shots if s.due(call.group, self._step + 1)] if shots else []
        if not due and not self._deferred:
            return self._issue(call, proceed)
        return self._around_fault(call, proceed, due)

    def _issue(self, call: Call, proceed: Proceed) -> Work | None:
        # Outside of the frames of this function and of who called it, both chaoskit's.
        of_call = call.key() if call.op not in _P2P else (call.op, call.peer)
        key = (user_site((), 3), call.group, of_call, _thread_id())
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = (self._new_form(call, key[0]), call.fingerprint())
        form, fingerprint = known
        call.note = self._enter(form, call.nth, self._step + 1, next(self._seqs), fingerprint)
        return proceed()

    def done(self, call: Call, error: BaseException | None) -> None:
        entry: Entry | None = call.note  # None: not entered, or its end is told already
        if entry is not None:
            call.note = None
            if error is None:
                self._complete(entry)
            elif isinstance(error, Exception):  # a sys.exit() of the script's own ends no operation
                self._put(_FAILED, _now(), *entry[1:], self._recorder.said(str(error)))
        if self._after and error is None:
            for shot in self._after.pop(id(call), ()):
                self._fire(shot, call)

    def _around_fault(self, call: Call, proceed: Proceed, due: list[Shot]) -> Work | None:
        for shot in due:
            if shot.holds:
                self._hold(shot, call)
        mine = [s for s in due if not s.holds]
        replacing = next((s for s in mine if s.fault.replaces_call), None)
        for shot in mine:
            if shot.when.phase is Phase.BEFORE and shot is not replacing:
                self._fire(shot, call)
        if after := [s for s in mine if s.when.phase is Phase.AFTER]:
            self._after[id(call)] = after
        deferred, self._deferred = self._deferred, []
        work = self._replace(replacing, call, proceed) if replacing else self._issue(call, proceed)
        for shot in mine:
            if shot.when.phase is Phase.DURING:
                self._fire_during(shot, call)
        self._issue_deferred(deferred, call, work)
        return work

    def _fire_during(self, shot: Shot, call: Call) -> None:
        try:
            self._fire(shot, call, submitted=True)
        except BaseException:
            # The exception comes out of the collective's line, but the operation has not failed.
            call.note = None
            raise

    def _replace(self, shot: Shot, call: Call, proceed: Proceed) -> Work | None:
        issued = False

        def issue() -> Work | None:
            nonlocal issued
            issued = True
            return self._issue(call, proceed)

        self._injected(shot, call, submitted=False)
        work = shot.fault.around(self._moment(shot, call), call, issue)
        if not issued:
            _uncount(call)
        return work

    def _issue_deferred(self, deferred: list[Call], call: Call, work: Work | None) -> None:
        """Issue what was put off, now that ``call`` of the same group has had its turn."""
        for put_off in deferred:
            if put_off.inner is not call.inner:
                self._deferred.append(put_off)
                continue
            if work is not None:
                work.wait()
                self.done(call, None)  # it has ended, whenever the script looks
            self._reissue(put_off, put_off.args, put_off.kwargs)

    def _reissue(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Issue a call through the wrapper, so that guards and counts see it as one of the script."""
        self._again.on = True
        try:
            work = getattr(_outer(call), call.method)(*args, **kwargs)
            if work is not None:
                work.wait()
        finally:
            self._again.on = False

    def _reissue_copy(self, call: Call) -> None:
        self.done(call, None)  # whoever issues it once more has waited for it
        self._reissue(call, _copied(call.args), {k: _copied(v) for k, v in call.kwargs.items()})

    def _new_form(self, call: Call, site: tuple[str, int, str]) -> int:
        shape, dtype = _described(call)
        at = f"{site[0]}:{site[1]}" if site[0] else ""
        return self._recorder.form(
            call.op, call.group, at, shape, dtype, call.peer, self._threads.number(_thread_id())
        )

    # ---------------------------------------------------------------- process groups

    def init_enter(self) -> None:
        for shot in self._shots:
            if shot.when.kind == "init" and not shot.holds and shot.due():
                self._fire(shot)
        self._gate()
        file, line, _ = user_site()
        form = self._recorder.form("init", "default", f"{file}:{line}" if file else "")
        self._init = self._enter(form, next(self._inits), self._step + 1, next(self._seqs), 0)

    def init_done(self, error: BaseException | None) -> None:
        if self._init is not None:
            if error is None:
                self._complete(self._init)
            else:
                self._put(_FAILED, _now(), *self._init[1:], self._recorder.said(str(error)))
            self._init = None

    def group_made(self, name: str, ranks: tuple[int, ...], timeout_s: float | None) -> None:
        self._recorder.members(name, ranks)

    # ---------------------------------------------------------------- progress

    def step_done(self, step: int) -> None:
        intercept.settle()  # DDP's reductions have been waited for; say so before the step is done
        self._step = step
        self._recorder.set_word(Word.STEP, step)
        self._moved()
        self._put(_STEPPED, _now(), 0, 0, step)
        for shot in self._shots:
            # The number, not a count: a script may number its steps as it likes.
            if shot.when.kind == "step" and not shot.holds:
                reached = step >= shot.when.step if shot.fault.repeats else step == shot.when.step
                if reached and (shot.fault.repeats or not shot.fired):
                    self._fire(shot)

    def phase_begin(self, name: str, allowance_s: float) -> None:
        now = time.monotonic()
        self._phases.append((name, now + allowance_s))
        self._recorder.set_word(Word.ALLOWANCE_NS, int((now + allowance_s) * 1e9))
        self._moved()
        self._recorder.note(PhaseDeclared(now, self._slot, name, allowance_s))

    def phase_end(self, name: str) -> None:
        if self._phases:
            self._phases.pop()
        until_s = self._phases[-1][1] if self._phases else 0.0
        self._recorder.set_word(Word.ALLOWANCE_NS, int(until_s * 1e9))
        self._moved()
        self._recorder.note(PhaseDeclared(time.monotonic(), self._slot, name, 0.0))

    def report_result(self, value: float) -> None:
        self._moved()
        self._recorder.note(Reported(time.monotonic(), self._slot, value))

    def finished(self) -> None:
        if not self._recorder.word(Word.WORK_DONE):
            self._recorder.set_word(Word.WORK_DONE, 1)
            for what, times in self._moments.reached() if self._moments else ():
                self._recorder.note(Reached(time.monotonic(), self._slot, what, times))
            self._recorder.note(Finished(time.monotonic(), self._slot))

    def _moved(self) -> None:
        self._recorder.set_word(Word.PROGRESS, self._recorder.word(Word.PROGRESS) + 1)

    # ---------------------------------------------------------------- firing

    def _moment(self, shot: Shot, call: Call | None) -> Moment:
        return Moment(
            rank=self._rank,
            world_size=self._world_size,
            slot=self._slot,
            seed=self._seed,
            call=call,
            release=functools.partial(self._recorder.set_bit, Word.RELEASED, shot.bit),
            reissue=self._reissue_copy,
            defer=self._deferred.append,
            network=self._network,
            broken=self._broken,
        )

    def _broken(self, why: str) -> None:
        self._recorder.note(Malfunction(time.monotonic(), self._slot, why))

    def _injected(self, shot: Shot, call: Call | None, *, submitted: bool) -> None:
        if shot.fired:  # a lasting fault is said once
            return
        shot.fired = True
        op, group, nth = (call.op, call.group, call.nth) if call is not None else ("", "", 0)
        phase = str(shot.when.phase) if call is not None else ""
        name = shot.fault.name
        event = Injected(time.monotonic(), self._slot, shot.index, name, op, group, nth, phase, submitted)
        self._recorder.note(event, shot.bit)

    def _fire(self, shot: Shot, call: Call | None = None, submitted: bool = False) -> None:
        if self._recorder.muted:  # a forked worker of the script
            return
        moment = self._moment(shot, call)
        self._injected(shot, call, submitted=submitted)
        if shot.fault.releases == "before":
            moment.release()
        shot.fault.fire(moment)
        if shot.fault.releases == "after":
            moment.release()

    def _hold(self, shot: Shot, call: Call) -> None:
        targets = [r for r in call.group_ranks if shot.fault.targets(r)]
        others = [r for r in call.group_ranks if not self._is_target(r, call.op)]
        if not targets or not others or min(others) != self._rank:
            return
        held = functools.partial(Held, slot=self._slot, op=call.op, group=call.group, nth=call.nth)
        self._recorder.note(held(time.monotonic()))
        self._peers.hold(shot, targets)
        self._recorder.note(held(time.monotonic(), released=True))

    def _is_target(self, slot: int, op: str) -> bool:
        return any(s.fault.targets(slot) for s in self._by_op[op] if s.when.phase is Phase.DURING)


def _outer(call: Call) -> Intercepted:
    """Return the wrapper that ``call`` came through."""
    return next(g for g in c10d._world.pg_map if isinstance(g, Intercepted) and g.inner is call.inner)


def _uncount(call: Call) -> None:
    """Take back the count of a call that the rank never made: the next one has its number."""
    _outer(call)._counts[call.op] = count(call.nth)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    return value


_INPUTS_LAST = frozenset({"all_gather", "gather"})


def _described(call: Call) -> tuple[str, str]:
    """Return shape and dtype of what this rank puts in, as short texts; empty for a barrier."""
    tensors = call.tensors
    if not tensors:
        return "", ""
    shown = tensors[-1:] if call.op in _INPUTS_LAST else tensors[:1]
    shape = ",".join("x".join(map(str, t.shape)) or "scalar" for t in shown)
    return shape, str(shown[0].dtype).removeprefix("torch.")
