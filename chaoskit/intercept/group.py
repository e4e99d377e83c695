"""The process group that a program gets instead of torch's own, and how one takes the other's place.

It delegates every collective to the inner group, through the listeners. Everything else (backends, timeouts,
names, sequence numbers, abort) works on the same backend objects, so it needs no delegation. May not know
what listeners do.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch._C._distributed_c10d import _register_process_group, _unregister_process_group
from torch.distributed import ProcessGroup, Work
from torch.distributed import distributed_c10d as c10d

from chaoskit.intercept import compiler, names, work
from chaoskit.intercept.call import SAY_IF_ASYNC, Call
from chaoskit.intercept.listeners import registry
from chaoskit.intercept.ops import collective_methods

_METHODS = collective_methods()
# Of the calls that wait to be reported. All of them, and k buckets would cost a look at k² / 2 futures.
_SETTLED_AT_ONCE = 3


class Intercepted(ProcessGroup):
    """A ProcessGroup whose collectives pass the listeners; see `wrap` for how to make one."""

    __slots__ = ("_counts", "_inner", "_issue", "_known_as", "_ranks", "_store")

    def __init__(self, inner: ProcessGroup, store: Any, known_as: str, ranks: tuple[int, ...]) -> None:
        # Only this constructor makes a group whose methods C++ looks up in Python, and it takes no store.
        ProcessGroup.__init__(self, inner.rank(), inner.size())  # type: ignore[call-arg]  # not in the stub
        self._inner = inner
        self._store = store
        self._known_as = known_as
        self._ranks = ranks
        self._issue = {method: getattr(inner, method) for method in _METHODS}
        # itertools.count, because autograd threads count as well and next() on it is atomic.
        self._counts = {op: count(1) for op in _METHODS.values()}

    @property
    def inner(self) -> ProcessGroup:
        """The group that torch made; what is issued on it is not seen."""
        return self._inner

    def get_group_store(self) -> Any:
        return self._store

    def shutdown(self) -> None:
        work.settle()
        # destroy_process_group() does this only where type(pg) is exactly ProcessGroup: NCCL's completion
        # hooks run Python on another thread and may not outlive the interpreter.
        if self._inner._has_hooks():
            self._inner._wait_for_pending_works()
        ProcessGroup.shutdown(self)

    def split_group(self, ranks: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        made = self._inner.split_group(ranks, *args, **kwargs)
        if made is None:  # this rank is not a member
            return None
        members = tuple(self._ranks[rank] for rank in ranks)
        return wrap(made, made.get_group_store(), _name_of(made), members, _timeout_s(args, kwargs))

    def merge_remote_group(self, *args: Any, **kwargs: Any) -> ProcessGroup:
        made = self._inner.merge_remote_group(*args, **kwargs)
        members = tuple(range(made.size()))
        return wrap(made, made.get_group_store(), _name_of(made), members, _timeout_s(args, kwargs))


def _name_of(group: ProcessGroup) -> str:
    return names.user_name(group.group_desc, group.group_name)


def _timeout_s(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    for value in (*args, *kwargs.values()):
        if hasattr(value, "total_seconds"):
            return float(value.total_seconds())
    return None


def _override(method: str, op: str) -> Callable[..., Work | None]:
    # The hot path of everything that listens: written out, because each function that it called would cost
    # a hundredth of the budget.
    new_call, pending, settle = Call.__new__, work.pending, work.settle

    def collective(self: Intercepted, *args: Any, **kwargs: Any) -> Work | None:
        nth = next(self._counts[op])
        chain = registry.chain
        if chain is None:
            return self._issue[method](*args, **kwargs)  # type: ignore[no-any-return]
        if pending:
            settle(_SETTLED_AT_ONCE)
        call = new_call(Call)  # as Call.__init__ does, in a third of the time
        call.op = op
        call.method = method
        call.group = self._known_as
        call.group_ranks = self._ranks
        call.nth = nth
        call.args = args
        call.kwargs = kwargs
        call.inner = self._inner
        call._issue = self._issue[method]
        call._print_of = call.note = None
        outermost, others = chain
        step = call.proceed
        try:
            for around in others:
                step = partial(around, call, step)
            issued = outermost(call, step)
        except BaseException as error:
            work.report(call, error)
            raise
        if issued is None:
            work.report(call, None)
            return None
        # Only the options of torch.distributed's own synchronous calls say so; the default is asynchronous.
        opts: Any = kwargs.get("opts") if kwargs else args[-1] if args else None
        if type(opts) not in SAY_IF_ASYNC or opts.asyncOp:
            return work.Watched(issued, call)
        # torch.distributed waits for it next; to do so here saves a Watched.
        try:
            issued.wait()
        except BaseException as error:
            work.report(call, error)
            raise
        for done in registry.dones:
            done(call, None)
        return issued

    collective.__name__ = method
    collective.__doc__ = getattr(ProcessGroup, method).__doc__
    return collective


COLLECTIVES = {method: _override(method, op) for method, op in _METHODS.items()}
"""What Intercepted has in the place of each collective of ProcessGroup."""
COLLECTIVE_CODE = COLLECTIVES["allreduce"].__code__
"""Of all of them: a frame that runs it is a collective which the listeners see."""
compiler.leave_out([COLLECTIVE_CODE])
for _method, _collective in COLLECTIVES.items():
    setattr(Intercepted, _method, _collective)

# By the id of the inner group, which lives as long as its wrapper.
_outers: "WeakValueDictionary[int, Intercepted]" = WeakValueDictionary()


def outer_of(inner: ProcessGroup) -> Intercepted | None:
    """The wrapper of `inner`, or None where it has none."""
    return _outers.get(id(inner))


def wrap(
    inner: ProcessGroup, store: Any, name: str, ranks: tuple[int, ...], timeout_s: float | None
) -> Intercepted:
    """Make the wrapper of `inner` and tell the listeners; `ranks` are global, `name` is made unique."""
    outer = Intercepted(inner, store, names.claim(name, ranks), ranks)
    _outers[id(inner)] = outer
    # Before the backends: registering one binds it to the device of the group.
    outer.bound_device_id = inner.bound_device_id
    types = c10d.Backend.backend_type_map
    outer._set_default_backend(types.get(inner.name(), ProcessGroup.BackendType.CUSTOM))
    # Backwards, because torch keeps them in a hash set: so they come out in the same order.
    for device in reversed(inner._device_types):
        # C++ asks the group for its backends (FSDP2 does), so they must be the real ones.
        backend = inner._get_backend(torch.device(device))
        kind = types.get(backend.name(), ProcessGroup.BackendType.CUSTOM)
        outer._register_backend(torch.device(device), kind, backend)
    outer._set_group_name(inner.group_name)
    outer._set_group_desc(inner.group_desc)
    registry.notify("group_made", outer._known_as, ranks, timeout_s)
    return outer


def take_over(inner: ProcessGroup, outer: Intercepted) -> None:
    """Put `outer` in the place of `inner` in torch's own tables, by which it finds groups again."""
    world = c10d._world
    tables: tuple[dict[ProcessGroup, Any], ...] = (
        world.pg_map,
        world.pg_names,
        world.pg_backend_config,
        world.pg_to_tag,
        world.pg_group_ranks,
    )
    for table in tables:
        if inner in table:
            table[outer] = table.pop(inner)
    for groups in world.tags_to_pg.values():
        groups[:] = [outer if group is inner else group for group in groups]
    # The registry by which C++ (functional collectives) finds a group by its name.
    _unregister_process_group(inner.group_name)
    _register_process_group(inner.group_name, outer)
