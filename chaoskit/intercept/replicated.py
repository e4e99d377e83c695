"""Which state of a training script several ranks must hold alike, and its checksum at the moments they do.

Known to be replicated:

- the parameters of DistributedDataParallel that require a gradient, on the ranks of its group; also where it
  is used by `replicate`. Not those that it ignores, and no buffers: these may differ in a healthy job;
- DTensor parameters whose placements are all `Replicate`, on the ranks of their mesh, once an optimizer
  steps them. Never sharded ones.

A script may let its replicas differ on purpose. What shows that is *unchecked* for good: an optimizer step
after a forward pass under `no_sync()`, a communication hook that is not one of torch's exact ones
(post-local SGD and the script's own are not), `Join`. A change that no `torch.optim` optimizer makes is not
counted as an update.

The moments: for DDP, before the first forward pass in training mode after an update (an optimizer hook would
be too early: ZeroRedundancyOptimizer broadcasts after its step); for DTensors, and DDP under torch.compile,
before the next step. A DDP forward pass under `no_sync()` is such a moment, too, but what it shows is told
only once a forward pass without it follows: between the two a script may move its parameters on its own
(SAM). May not compare or decide anything, and issues no collective.
"""

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from chaoskit.intercept import replicas_of
from chaoskit.intercept.checksum import combined, numbers
from chaoskit.intercept.exact_hooks import is_exact


@dataclass(frozen=True, slots=True)
class Replica:
    """State as this rank holds it after `step` updates (0: before the first); equal on all of `ranks`.

    `ordinal` counts what these same ranks replicate, in the order in which it was made. So (ranks, ordinal,
    step) means the same on each of them. ``numbers`` are the checksums of its tensors one by one, and
    ``names`` what these are called.
    """

    ranks: tuple[int, ...]
    ordinal: int
    name: str
    step: int
    checksum: int
    numel: int
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


Every = int | Callable[[int], int]
"""Each how many updates; or what gives that for a number of elements, alike on all ranks."""


class _Held:
    """One thing that is replicated: the parameters of a DDP instance, or of an optimizer on one mesh."""

    def __init__(
        self,
        owner: object,
        tensors: Callable[[Any], list[torch.Tensor]],
        ranks: tuple[int, ...],
        name: str,
        names: Callable[[Any], tuple[str, ...]],
    ) -> None:
        self.owner = weakref.ref(owner)
        self._tensors = tensors
        self._names = names
        self._known: tuple[str, ...] = ()
        self.ranks = ranks
        self.name = name
        self.ordinal = sum(1 for other in _replicated.held if other.ranks == ranks) + _replicated.freed(ranks)
        self.updates = 0
        self.stepped = False  # since the last moment
        self.seen = False  # its forward passes; torch.compile hides them
        self.no_sync = False  # was ever used
        self.synced = True  # the last forward pass was one whose gradients are reduced
        self.reported = -1
        self.waiting: Callable[[], None] | None = None  # tells of the last moment, once it turns out synced
        self.unchecked = ""
        self.size: int | None = None

    def wanted(self, every: Every) -> bool:
        """Whether the update that has just been made is one of `every`."""
        if isinstance(every, int):
            return self.updates % every == 0
        if self.size is None:
            self.size = sum(tensor.numel() for tensor in self.tensors())
        return self.updates % max(1, every(self.size)) == 0

    def tensors(self) -> list[torch.Tensor]:
        owner = self.owner()
        return [] if owner is None else [replicas_of.local(tensor) for tensor in self._tensors(owner)]

    def replica(self) -> Replica | None:
        """Its checksum now; None where it cannot be had or says nothing."""
        if self.unchecked:
            return None
        tensors = self.tensors()
        if not tensors or not all(replicas_of.has_bits(tensor) for tensor in tensors):
            return None
        numel = sum(tensor.numel() for tensor in tensors)
        with torch.no_grad():
            each = tuple(numbers(tensors))
        step = self.updates + self.stepped
        names = self._names_of(len(tensors))
        return Replica(self.ranks, self.ordinal, self.name, step, combined(each), numel, names, each)

    def _names_of(self, count: int) -> tuple[str, ...]:
        """The names of so many tensors; asked for once, as long as their number stays."""
        if len(self._known) != count:
            found = self._names(self.owner())
            self._known = (*found[:count], *(f"parameter {index}" for index in range(len(found), count)))
        return self._known


_OnReplica = Callable[[Replica], None]


class _Replicated:
    """All that is replicated in this process, and who wants to know of it."""

    def __init__(self) -> None:
        self.held: list[_Held] = []
        self.gone: dict[tuple[int, ...], int] = {}
        self.listeners: list[tuple[_OnReplica, Every]] = []
        self.also: list[_OnReplica] = []
        self.watching = False
        self.last: tuple[int, int | None] | None = None

    def freed(self, ranks: tuple[int, ...]) -> int:
        return self.gone.get(ranks, 0)

    def alive(self) -> list[_Held]:
        """Those whose owner still exists; the others are forgotten, and counted for the ordinals."""
        for held in self.held:
            if held.owner() is None:
                self.gone[held.ranks] = self.freed(held.ranks) + 1
        self.held = [held for held in self.held if held.owner() is not None]
        return self.held

    def moment(self, held: _Held) -> None:
        """All ranks hold `held` alike now, if they ever do: tell those who asked for this update; where the
        gradients of this forward pass are not reduced, as soon as those of a later one are."""
        if held.reported != held.updates:
            held.reported = held.updates
            held.waiting = self._summed(held)
        if held.synced:
            tell, held.waiting = held.waiting, None
            if tell is not None and not held.unchecked:
                tell()

    def _summed(self, held: _Held) -> Callable[[], None] | None:
        """Take the checksum now; return what tells of it."""
        if held.unchecked:
            return None
        wanted = [told for told, every in self.listeners if held.wanted(every)]
        if not wanted:
            return None
        wanted += [told for told in self.also if told not in wanted]
        try:
            replica = held.replica()
        except Exception as error:  # noqa: BLE001  # tensors of a kind unknown here: never the script's trouble
            held.unchecked = f"no checksum: {error}"
            return None
        if replica is None:
            return None

        def tell(replica: Replica = replica) -> None:
            for told in wanted:
                told(replica)

        return tell


_replicated = _Replicated()


def watch_replicated() -> None:
    """Know every DistributedDataParallel made from now on, and every replicated DTensor that is optimized."""
    if _replicated.watching:
        return
    _replicated.watching = True
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    _wrap("__init__", after=_made)
    _wrap("_pre_forward", before=_before_forward)
    _wrap("no_sync", before=_no_sync)
    register_optimizer_step_pre_hook(_unless_compiling(_before_step))
    register_optimizer_step_post_hook(_unless_compiling(_after_step))


def on_replica(told: _OnReplica, every: Every = 1) -> None:
    """Call `told` with each replicated thing at its moments, after every `every`-th update (and before the
    first). A checksum costs about 0.4 ms for each MiB, so choose `every` accordingly."""
    watch_replicated()
    _replicated.listeners.append((told, every))


def on_any_replica(told: _OnReplica) -> None:
    """Call `told`, too, whenever `on_replica` calls somebody else: what is summed up once costs nothing more.
    Nothing is watched for this alone."""
    _replicated.also.append(told)


def on_forward(told: Callable[[int, int], None], every: int = 1) -> None:
    """Call `told(step, checksum)` as `on_replica` does, for what *all* ranks of the job replicate."""

    def tell(replica: Replica) -> None:
        if replica.ranks == _world():
            told(replica.step, replica.checksum)

    on_replica(tell, every)


def replicas() -> tuple[Replica, ...]:
    """All that is known to be replicated and is not unchecked, as it is now."""
    return tuple(replica for held in _replicated.alive() if (replica := _now(held)) is not None)


def state(step: int) -> int | None:
    """The checksum, now, of all that every rank of the job replicates; None where nothing is known to be.

    `step` is the caller's own number: asked again for the same one, the first answer is given again.
    """
    if _replicated.last is not None and _replicated.last[0] == step:
        return _replicated.last[1]
    world = _world()
    total: int | None = None
    for replica in replicas():
        if replica.ranks == world:
            total = replica.checksum if total is None else (total * 31 + replica.checksum) % (1 << 63)
    _replicated.last = (step, total)
    return total


def owners() -> tuple[object, ...]:
    """Return the models and optimizers behind `replicas()` that are still alive."""
    return tuple(owner for held in _replicated.alive() if (owner := held.owner()) is not None)


def numel() -> int:
    """How many elements `replicas()` goes over."""
    checked = [held for held in _replicated.alive() if not held.unchecked]
    return sum(tensor.numel() for held in checked for tensor in held.tensors())


def unchecked() -> tuple[str, ...]:
    """What is not checked though it is replicated, and why, in words."""
    return tuple(f"{held.name}: {held.unchecked}" for held in _replicated.alive() if held.unchecked)


# ---- DistributedDataParallel


def _made(ddp: DistributedDataParallel) -> None:
    ranks = tuple(sorted(c10d.get_process_group_ranks(ddp.process_group)))
    if len(ranks) < 2:
        return
    _replicated.alive()
    kept = replicas_of.trained(ddp)
    if not kept:
        return
    held = _Held(
        ddp,
        functools.partial(replicas_of.in_ddp, kept),
        ranks,
        f"DistributedDataParallel({type(ddp.module).__name__})",
        functools.partial(replicas_of.names_in_ddp, kept),
    )
    _replicated.held.append(held)


def _before_forward(ddp: DistributedDataParallel) -> None:
    if not (ddp.module.training and torch.is_grad_enabled()):
        return
    for held in _replicated.held:
        if held.owner() is not ddp:
            continue
        held.seen = True
        held.synced = ddp.require_backward_grad_sync
        _ddp_moment(held, ddp)


def _ddp_moment(held: _Held, ddp: DistributedDataParallel) -> None:
    held.unchecked = held.unchecked or _differs_on_purpose(ddp)
    if held.stepped:
        held.stepped = False
        held.updates += 1
    _replicated.moment(held)


def _no_sync(ddp: DistributedDataParallel) -> None:
    for held in _replicated.held:
        if held.owner() is ddp:
            held.no_sync = True


def _differs_on_purpose(ddp: DistributedDataParallel) -> str:
    if ddp._join_config.enable:
        return "Join lets ranks make different numbers of updates"
    for hook, _ in ddp._comm_hooks:
        if not is_exact(hook):
            return f"communication hook {getattr(hook, '__qualname__', hook)}"
    return ""


# ---- optimizers


def _before_step(optimizer: torch.optim.Optimizer) -> None:
    known = {held.ranks for held in _replicated.held if held.owner() is optimizer}
    for ranks in {ranks for ranks, _, _ in replicas_of.dtensors(optimizer)} - known:
        name = f"replicated DTensors of {type(optimizer).__name__}"
        tensors = functools.partial(replicas_of.on_mesh, ranks)
        _replicated.held.append(
            _Held(optimizer, tensors, ranks, name, functools.partial(replicas_of.names_on_mesh, ranks))
        )
    for held in _replicated.alive():
        owner = held.owner()
        if owner is optimizer:
            _replicated.moment(held)
        elif isinstance(owner, DistributedDataParallel) and held.stepped and not held.seen:
            if held.no_sync:
                held.unchecked = "no_sync() around a compiled module"
            _ddp_moment(held, owner)


def _after_step(optimizer: torch.optim.Optimizer) -> None:
    for held in _replicated.alive():
        owner = held.owner()
        if owner is optimizer:
            held.updates += 1
        elif isinstance(owner, DistributedDataParallel) and _optimizes(optimizer, held):
            held.stepped = True
            if not held.synced:
                held.unchecked = held.unchecked or "an optimizer step after a forward pass under no_sync()"


def _optimizes(optimizer: torch.optim.Optimizer, held: _Held) -> bool:
    mine = {id(tensor) for tensor in held.tensors()}
    return any(id(p) in mine for group in optimizer.param_groups for p in group["params"])


# ---- shared

# Not one of torch's public names, yet what it marks its own optimizers with; the public one imports dynamo.
_not_compiled: Callable[[Callable[[Any], None]], Callable[[Any], None]] = vars(torch)["_disable_dynamo"]


def _now(held: _Held) -> Replica | None:
    try:
        return held.replica()
    except Exception:  # noqa: BLE001  # tensors of a kind unknown here
        return None


def _world() -> tuple[int, ...]:
    return tuple(range(c10d.get_world_size())) if c10d.is_initialized() else ()


def _wrap(
    method: str,
    before: Callable[[DistributedDataParallel], None] | None = None,
    after: Callable[[DistributedDataParallel], None] | None = None,
) -> None:
    original = getattr(DistributedDataParallel, method)
    first = _not_compiled(before) if before else None
    last = _not_compiled(after) if after else None

    @functools.wraps(original)
    def wrapped(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> Any:
        compiling = torch.compiler.is_compiling()  # whoever compiles it gets torch's own code only
        if first is not None and not compiling:
            first(self)
        result = original(self, *args, **kwargs)
        if last is not None and not compiling:
            last(self)
        return result

    setattr(DistributedDataParallel, method, wrapped)


def _unless_compiling(hook: Callable[[torch.optim.Optimizer], None]) -> Callable[..., None]:
    disabled = _not_compiled(hook)

    def called(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if not torch.compiler.is_compiling():
            disabled(optimizer)

    return called
