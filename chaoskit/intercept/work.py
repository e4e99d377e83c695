"""The Work handles that callers get: they pass everything on and report the end of the call, once.

When `done` is reported:

- the call is synchronous: when it ended, before it returns;
- the caller waits on the Work, from Python or from C++ (functional collectives, DDP's constructor): when
  wait() returns or raises, on that thread. `is_completed()` saying yes counts as well;
- the call has no Work (monitored_barrier; synchronous calls under NCCL): when it returned or raised;
- the caller took the future (DDP's reducer and communication hooks do, and wait for it in C++) or a box (an
  operator of torch.ops.c10d was called): at one of the next collectives, `settle()` or shutdown of a group
  after the future was done. So late, never early. A callback on the future would be prompt, but it costs
  4 us, runs Python on gloo's thread, and a reducer that is freed joins that thread with the GIL held;
- the caller drops the Work (DDP's Join does): in the same way, if the Work has a future; else never.

Under NCCL, as everywhere in torch, waited for means enqueued on the stream, not finished on the GPU.
"""

import contextlib
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work
from torch.futures import Future

from chaoskit.intercept import compiler
from chaoskit.intercept.call import Call
from chaoskit.intercept.listeners import registry

_NO_TIMEOUT = timedelta(0)  # torch's own default of Work.wait: the timeout of the group

# Calls whose future somebody else waits for. A deque, because its ends are atomic without a lock.
pending: "deque[tuple[Future[Any], Watched | _Unwatched]]" = deque()
# Works that a program holds in a box only, which does not keep their Python half.
_boxed: "set[Watched]" = set()
# The same for those that a listener made; nobody tells when they are no longer needed.
_boxed_finished: deque[Work] = deque(maxlen=256)


def _keeps_none(version: str) -> bool:
    """Whether C++ keeps only its own half of a Work that a group written in Python returned (2.6 does): who
    waits there, as DDP's constructor, would wait for ever for one whose Python half is gone."""
    release = [int(part) for part in version.partition("+")[0].split(".")[:2] if part.isdigit()]
    return len(release) == 2 and release < [2, 7]


# Those not ended yet, the oldest first, and the last few that were; in use on such a torch only.
_KEPT_MAX = 256
_kept: "dict[Work, None] | None" = {} if _keeps_none(torch.__version__) else None
_kept_ended: deque[Work] = deque(maxlen=8)


def _keep(one: Work) -> None:
    if _kept is not None:
        _kept[one] = None
        if len(_kept) > _KEPT_MAX:
            _kept.pop(next(iter(_kept)), None)


def report(call: Call, error: BaseException | None) -> None:
    """Tell every listener that `call` ended."""
    for done in registry.dones:
        done(call, error)


def settle(at_most: int | None = None) -> None:
    """Report the calls that have ended since, of those whose future was taken. Cheap when there are none.

    Happens by itself at each collective, for a few calls; call it where a precise time matters, as after a
    backward pass.
    """
    for _ in range(len(pending) if at_most is None else min(at_most, len(pending))):
        try:
            future, watched = pending.popleft()
        except IndexError:  # another thread settles too
            return
        if not future.done():
            pending.append((future, watched))
            continue
        watched.ended(_error_of(future))


def _error_of(future: Future[Any]) -> BaseException | None:
    try:
        future.value()
    except Exception as error:  # noqa: BLE001  # reported, whatever it is
        return error
    return None


class Watched(Work):
    """The inner Work, plus a report to the listeners when the call ended."""

    __slots__ = ("_call", "_inner")

    def __init__(self, inner: Work, call: Call) -> None:
        Work.__init__(self)
        self._inner = inner
        self._call: Call | None = call
        if _kept is not None:
            _keep(self)

    def ended(self, error: BaseException | None) -> None:
        """Report the end of the call if nobody has yet; lets go of the tensors."""
        call = self._call
        if call is not None:
            self._call = None
            if _boxed:
                _boxed.discard(self)
            if _kept is not None:
                _kept.pop(self, None)
                _kept_ended.append(self)
            report(call, error)

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        try:
            waited = self._inner.wait(timeout)
        except BaseException as error:
            self.ended(error)
            raise
        self.ended(None)
        return waited

    def is_completed(self) -> bool:
        completed = self._inner.is_completed()
        if completed and self._call is not None:
            try:
                self._inner.wait()  # at once; is_success() and exception() print a warning
            except Exception as error:  # noqa: BLE001  # reported, and raised where the program waits
                self.ended(error)
            else:
                self.ended(None)
        return completed

    def get_future(self) -> Future[Any]:
        future = self._inner.get_future()
        if self._call is not None:
            pending.append((future, self))
        return future

    def boxed(self) -> torch.ScriptObject:
        # C++ keeps what is in the box but not its Python half, without which a Watched never ends.
        if type(self._inner) is not Work:
            _boxed_finished.append(self._inner)
        try:
            self.get_future()
        except RuntimeError:  # send, recv and reduce_scatter of gloo have none
            if self._call is not None:
                _boxed.add(self)
            return Work.boxed(self)
        return self._inner.boxed()

    def __del__(self) -> None:
        if self._call is not None:
            with contextlib.suppress(Exception):  # it has no future, or the interpreter ends
                pending.append((self._inner.get_future(), _Unwatched(self._call)))


class _Unwatched:
    """Stands in the pending calls for a Watched that nobody holds."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def ended(self, error: BaseException | None) -> None:
        report(self._call, error)


def _forwarder(name: str) -> Callable[..., Any]:
    def forward(self: Watched, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._inner, name)(*args, **kwargs)

    forward.__name__ = name
    return forward


# Read from the class, so that what a later torch adds to Work is passed on as well. `unbox` is static.
for _name in dir(Work):
    if (
        not _name.startswith("__")
        and _name not in Watched.__dict__
        and _name not in {"unbox", "_pybind11_conduit_v1_"}
    ):
        setattr(Watched, _name, _forwarder(_name))


class _Finished(Work):
    """A Work that was never issued: complete, successful, with the tensors as they are."""

    __slots__ = ("_result",)

    def __init__(self, result: list[torch.Tensor]) -> None:
        Work.__init__(self)
        self._result = result

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None

    def result(self) -> list[torch.Tensor]:
        return self._result

    def get_future(self) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self._result)
        return future


def finished(call: Call) -> Work:
    """A Work for a listener that skips `call`: done at once, its tensors left as they are.

    Good also for DDP's reducer, which then takes the local gradients for the reduced ones.
    """
    first = call.args[0] if call.args else call.tensors
    done = _Finished(list(first) if isinstance(first, (list, tuple)) else [first])
    _keep(done)
    return done


compiler.leave_out([*compiler.methods_of(Watched), *compiler.methods_of(_Finished)])
