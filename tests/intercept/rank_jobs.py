"""What the ranks of the intercept tests run; `rank_server.py` starts them, `test_ranks.py` judges them.

One job is a function of (rank, world) that returns something picklable. Not a test file.
"""

import importlib.util
import os
import pickle
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta

import listener_elsewhere
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed import distributed_c10d as c10d

from chaoskit import intercept

TABLES = (
    "pg_map",
    "pg_names",
    "pg_group_ranks",
    "pg_backend_config",
    "pg_to_tag",
    "tags_to_pg",
    "pg_coalesce_state",
)


class Seen:
    """Records what passes."""

    def __init__(self):
        self.calls, self.ends, self.groups, self.init = [], [], [], []

    def around(self, call, proceed):
        self.calls.append((call.group, call.op, call.nth))
        return proceed()

    def done(self, call, error):
        self.ends.append((call.group, call.op, call.nth, error and type(error).__name__))

    def group_made(self, name, ranks, timeout_s):
        self.groups.append((name, ranks, timeout_s))

    def init_enter(self):
        self.init.append("enter")

    def init_done(self, error):
        self.init.append(error and type(error).__name__)


class Doing:
    """Applies `change(call, proceed)` to each call of `op`."""

    def __init__(self, op, change):
        self.op, self.change = op, change

    def around(self, call, proceed):
        return self.change(call, proceed) if call.op == self.op else proceed()

    def done(self, call, error):
        pass


@contextmanager
def listening(listener):
    intercept.add(listener)
    try:
        yield listener
    finally:
        intercept.remove(listener)


def data(rank, n=4, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(100 * seed + rank))


# --- every public collective -------------------------------------------------------------------


# torch turns objects into tensors by numpy, which it does not require.
NUMPY = importlib.util.find_spec("numpy") is not None


def list_of(n, size=4):
    return [torch.zeros(size) for _ in range(n)]


def _all_reduce(r, w, g):
    t = data(r)
    dist.all_reduce(t, group=g)
    return t


def _all_reduce_async_max(r, w, g):
    t = data(r)
    dist.all_reduce(t, dist.ReduceOp.MAX, group=g, async_op=True).wait()
    return t


def _all_reduce_coalesced(r, w, g):
    t = [data(r), data(r, 2)]
    dist.all_reduce_coalesced(t, group=g)
    return t


def _coalescing_manager(r, w, g):
    t = [data(r), data(r, 2)]
    with c10d._coalescing_manager(group=g):
        for x in t:
            dist.all_reduce(x, group=g)
    return t


def _coalescing_manager_async(r, w, g):
    t, out = [data(r), data(r, 2)], [torch.zeros(4 * w), torch.zeros(2 * w)]
    with c10d._coalescing_manager(group=g, async_ops=True) as cm:
        for x, y in zip(t, out, strict=True):
            dist.all_gather_into_tensor(y, x, group=g)
    cm.wait()
    return out


def _broadcast(r, w, g):
    t = data(r)
    dist.broadcast(t, src=1, group=g)
    return t


def _barrier(r, w, g):
    dist.barrier(group=g)
    dist.barrier(group=g, async_op=True).wait()


def _monitored_barrier(r, w, g):
    dist.monitored_barrier(group=g, timeout=timedelta(seconds=20), wait_all_ranks=True)


def _all_gather(r, w, g):
    out = list_of(w)
    dist.all_gather(out, data(r), group=g)
    return out


def _all_gather_into_tensor(r, w, g):
    out = torch.zeros(4 * w)
    dist.all_gather_into_tensor(out, data(r), group=g)
    return out


def _reduce_scatter(r, w, g):
    out = torch.zeros(4)
    dist.reduce_scatter(out, [data(r, seed=s) for s in range(w)], group=g)
    return out


def _reduce_scatter_tensor(r, w, g):
    out = torch.zeros(4)
    dist.reduce_scatter_tensor(out, data(r, 4 * w), group=g)
    return out


def _all_to_all(r, w, g):
    out = list_of(w)
    dist.all_to_all(out, [data(r, seed=s) for s in range(w)], group=g)
    return out


def _all_to_all_single(r, w, g):
    out = torch.zeros(2 * w)
    dist.all_to_all_single(out, data(r, 2 * w), group=g)
    return out


def _gather(r, w, g):
    out = list_of(w) if r == 0 else None
    dist.gather(data(r), out, dst=0, group=g)
    return out


def _scatter(r, w, g):
    out = torch.zeros(4)
    dist.scatter(out, [data(r, seed=s) for s in range(w)] if r == 0 else None, src=0, group=g)
    return out


def _reduce(r, w, g):
    t = data(r)
    dist.reduce(t, dst=0, group=g)
    return t if r == 0 else None


def _send_recv(r, w, g):
    t = data(r)
    if r == 0:
        dist.send(t, 1, group=g)
    else:
        dist.recv(t, 0, group=g)
    return t


def _recv_any_source(r, w, g):
    t = data(r)
    if r == 0:
        return dist.isend(t, 1, group=g).wait()
    return dist.recv(t, group=g), t


def _batch_isend_irecv(r, w, g):
    t, got = data(r), torch.zeros(4)
    other = 1 - r
    ops = [dist.P2POp(dist.isend, t, other, group=g), dist.P2POp(dist.irecv, got, other, group=g)]
    for request in dist.batch_isend_irecv(ops):
        request.wait()
    return got


def _object_collectives(r, w, g):
    out = [None] * w
    dist.all_gather_object(out, {"rank": r}, group=g)
    things = [f"from {r}"]
    dist.broadcast_object_list(things, src=0, group=g)
    got = [None]
    dist.scatter_object_list(got, [10, 11] if r == 0 else [None, None], src=0, group=g)
    gathered = [None] * w if r == 0 else None
    dist.gather_object(r, gathered, dst=0, group=g)
    if r == 0:
        dist.send_object_list(["sent"], 1, group=g)
    else:
        dist.recv_object_list(things, 0, group=g)
    return out, things, got, gathered


def _functional(r, w, g):
    g = g or dist.group.WORLD
    return [
        funcol.all_reduce(data(r), "sum", g) + 0,
        funcol.all_reduce_coalesced([data(r)], "sum", g)[0] + 0,
        funcol.all_gather_tensor(data(r), 0, g) + 0,
        funcol.reduce_scatter_tensor(data(r, 4 * w), "sum", 0, g) + 0,
        funcol.all_to_all_single(data(r), None, None, g) + 0,
        funcol.broadcast(data(r), 1, g) + 0,
    ]


def _functional_out(r, w, g):
    ops, name = torch.ops._c10d_functional, (g or dist.group.WORLD).group_name
    gathered, scattered = torch.zeros(4 * w), torch.zeros(4)
    ops.wait_tensor(ops.all_gather_into_tensor_out(data(r), w, name, out=gathered))
    ops.wait_tensor(ops.reduce_scatter_tensor_out(data(r, 4 * w), "sum", w, name, out=scattered))
    return gathered, scattered


# Each with the ops that rank 0 and rank 1 have to see, in order.
AR, AG, RS = "all_reduce", "all_gather", "reduce_scatter"
COLLECTIVES = {
    _all_reduce: ([AR], [AR]),
    _all_reduce_async_max: ([AR], [AR]),
    _all_reduce_coalesced: ([AR], [AR]),
    _coalescing_manager: ([AR], [AR]),
    _coalescing_manager_async: ([AG], [AG]),
    _broadcast: (["broadcast"], ["broadcast"]),
    _barrier: (["barrier"] * 2, ["barrier"] * 2),
    _monitored_barrier: (["monitored_barrier"], ["monitored_barrier"]),
    _all_gather: ([AG], [AG]),
    _all_gather_into_tensor: ([AG], [AG]),
    _reduce_scatter: ([RS], [RS]),
    _reduce_scatter_tensor: ([RS], [RS]),
    _all_to_all: (["all_to_all"], ["all_to_all"]),
    _all_to_all_single: (["all_to_all"], ["all_to_all"]),
    _gather: (["gather"], ["gather"]),
    _scatter: (["scatter"], ["scatter"]),
    _reduce: (["reduce"], ["reduce"]),
    _send_recv: (["send"], ["recv"]),
    _recv_any_source: (["send"], ["recv"]),
    _batch_isend_irecv: (["send", "recv"], ["send", "recv"]),
    _object_collectives: (
        [AG, AG, "broadcast", "broadcast", "broadcast", "scatter", "scatter", AG, "gather", "send", "send"],
        [AG, AG, "broadcast", "broadcast", "broadcast", "scatter", "scatter", AG, "gather", "recv", "recv"],
    ),
    _functional: ([AR, AR, AG, RS, "all_to_all", "broadcast"],) * 2,
    _functional_out: ([AG, RS],) * 2,
}
if not NUMPY:
    del COLLECTIVES[_object_collectives]


def collectives(rank, world):
    """Every public collective on the default group and on a subgroup: results, and what was seen."""
    report = {}
    sub = dist.new_group([0, 1], group_desc="pair", timeout=timedelta(seconds=40))
    for group, where in ((None, "default"), (sub, "pair")):
        for function in COLLECTIVES:
            with listening(Seen()) as seen:
                result = function(rank, world, group)
            expected = COLLECTIVES[function][rank]
            report[where, function.__name__] = (result, seen.calls, seen.ends, expected)
    return report


# --- what is built on them ---------------------------------------------------------------------


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model, rank, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        model(data(rank, 12, seed=step).reshape(3, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def whole(model):
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach().clone() for p in model.parameters()]


def _ddp(rank, world):
    model = nn.parallel.DistributedDataParallel(net())
    train(model, rank)
    return whole(model)


def _ddp_hook(rank, world):
    model = nn.parallel.DistributedDataParallel(net())

    def hook(state, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / world)

    model.register_comm_hook(None, hook)
    train(model, rank)
    return whole(model)


def _fsdp2(rank, world):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (world,), mesh_dim_names=("shards",))
    model = net()
    fully_shard(model, mesh=mesh)
    train(model, rank)
    return whole(model)


def _dtensor(rank, world):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (world, 1), mesh_dim_names=("rows", "columns"))
    sharded = distribute_tensor(data(7, 16).reshape(4, 4), mesh, [Shard(0), Replicate()])
    product = sharded @ sharded.redistribute(mesh, [Replicate(), Replicate()])
    return product.full_tensor(), product.sum().full_tensor()


def _dcp(rank, world):
    import torch.distributed.checkpoint as dcp

    path = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(path)
    state = {"w": data(0), "step": 4}
    dcp.save(state, checkpoint_id=path[0])
    loaded = {"w": torch.zeros(4), "step": 0}
    dcp.load(loaded, checkpoint_id=path[0])
    return loaded


def _verify_params(rank, world):
    dist._verify_params_across_processes(dist.group.WORLD, [data(0)])
    dist._broadcast_coalesced(dist.group.WORLD, [data(rank)], 1024, 0)


FRAMEWORKS = (_ddp, _ddp_hook, _fsdp2, _dtensor, _verify_params, *([_dcp] if NUMPY else []))


def frameworks(rank, world):
    """DDP, FSDP2, DTensor, checkpoints: results, and what was seen."""
    report = {}
    for function in FRAMEWORKS:
        with listening(Seen()) as seen:
            result = function(rank, world)
            intercept.settle()
        report[function.__name__] = (result, seen.calls, seen.ends, seen.groups)
    return report


# --- calls that listeners change ---------------------------------------------------------------


def changed(rank, world):
    """Skipped, repeated and replaced calls, by hand and under DDP's reducer."""

    def skip(call, proceed):
        return intercept.finished(call)

    def twice(call, proceed):
        proceed().wait()
        return proceed()

    def ones(call, proceed):
        call.args = ([torch.ones_like(t) for t in call.tensors], *call.args[1:])
        return proceed()

    def nothing(call, proceed):
        return proceed()

    report = {}
    for change in (nothing, skip, twice, ones):
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False))
        with listening(Seen()) as seen, listening(Doing("all_reduce", change)):
            by_hand = torch.full((2,), float(rank + 1))
            dist.all_reduce(by_hand)
            later = torch.full((2,), float(rank + 1))
            dist.all_reduce(later, async_op=True).wait()
            model(torch.full((1, 2), float(rank + 1))).sum().backward()
            intercept.settle()
        report[change.__name__] = (by_hand, later, model.module.weight.grad[0], seen.calls, seen.ends)
        del model
    return report


# --- what must look and behave as before -------------------------------------------------------


def identity(rank, world):
    """All that programs ask of a group."""
    group, sub = dist.group.WORLD, dist.new_group([0, 1], timeout=timedelta(seconds=33), group_desc="two")
    cpu = torch.device("cpu")
    report = {
        "type": isinstance(group, dist.ProcessGroup),
        "backend": (dist.get_backend(), dist.get_backend(sub), group.name(), group._get_backend_name()),
        "names": (group.group_name, group.group_desc, sub.group_desc, c10d._get_process_group_name(sub)),
        "found by name": c10d._resolve_process_group(sub.group_name) is sub,
        "sizes": (group.rank(), group.size(), dist.get_world_size(sub), dist.get_process_group_ranks(sub)),
        "store": type(group.get_group_store()).__name__,
        "device types": [str(d) for d in group._device_types],
        "timeouts": [g._get_backend(cpu).options._timeout.total_seconds() for g in (group, sub)],
    }
    c10d._set_pg_timeout(timedelta(seconds=21), group)
    report["pg timeout set"] = group._get_backend(cpu).options._timeout.total_seconds()
    group._get_backend(cpu)._set_default_timeout(timedelta(seconds=22))
    sub.set_timeout(timedelta(seconds=23))
    report["timeouts set"] = [g._get_backend(cpu).options._timeout.total_seconds() for g in (group, sub)]
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    report["sequence"] = group._get_sequence_number_for_group() - before
    dist.destroy_process_group(sub)
    report["after sub"] = [len(getattr(c10d._world, table)) for table in TABLES]
    return report


def errors(rank, world):
    """The type of what a failing collective raises: sync, async, through the future, and in DDP."""
    caught = {}

    def attempt(name, function):
        try:
            function()
        except Exception as error:
            caught[name] = (type(error).__module__, type(error).__name__)

    attempt("bad argument", lambda: dist.group.WORLD.allreduce(5))
    attempt("sparse", lambda: dist.all_reduce(torch.ones(2).to_sparse_csr()))
    attempt("not in group", lambda: dist.broadcast(torch.ones(1), src=7))
    store = dist.group.WORLD.get_group_store()
    with listening(Seen()) as seen:
        if rank == 0:
            short = timedelta(milliseconds=300)
            attempt("monitored", lambda: dist.monitored_barrier(timeout=short, wait_all_ranks=True))
            attempt("monitored first", lambda: dist.monitored_barrier(timeout=short))
            dist.group.WORLD.set_timeout(short)
            attempt("sync", lambda: dist.all_reduce(torch.ones(1)))
            store.set("go", "1")
        else:
            store.wait(["go"])
    attempt("after", lambda: dist.all_reduce(torch.ones(1), async_op=True).wait())
    return caught, seen.ends


def aborted(rank, world):
    """abort() and shutdown() work through the wrapper; a later collective fails as it would without."""
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    dist.group.WORLD.abort()
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        outcome = type(error).__name__
    else:
        outcome = "passed"
    dist.group.WORLD.shutdown()
    return outcome


def names(rank, world):
    """How groups are called, on every rank alike."""
    with listening(Seen()) as seen:
        both = dist.new_group([0, 1], group_desc="pair")
        again = dist.new_group([0, 1], group_desc="pair")
        for ranks in ([0], [1]):
            dist.new_group(ranks, group_desc="own")
        unnamed = dist.new_group([0, 1])
        for group in (both, again, unnamed):
            dist.all_reduce(torch.ones(1), group=group)
        dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(1), group=both)
    return seen.groups, seen.calls


def lines(rank, world):
    """The user's line for calls from Python, from C++ and from a library, and fingerprints of them."""
    found = []

    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    with listening(listener_elsewhere.Notes(found)):
        dist.all_reduce(torch.ones(2))
        model(torch.ones(1, 2)).sum().backward()
        dist.broadcast(torch.ones(3), src=rank)
    return found


def split(rank, world):
    """A split on one rank: splits of gloo groups across ranks time out now and then in torch itself."""
    with listening(Seen()) as seen:
        made = dist.group.WORLD.split_group(
            [0], timeout=timedelta(seconds=12), group_name="p", group_desc="part"
        )
        made.allreduce([torch.ones(1)]).wait()
        made.shutdown()
    return made.group_name, made.group_desc, made.size(), seen.groups, seen.calls


def nothing(rank, world):
    """Only init and the end."""


JOBS = {
    f.__name__: f
    for f in (collectives, frameworks, changed, identity, errors, aborted, names, lines, split, nothing)
}


def main(job, rank, world, folder, intercepted):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    seen = Seen()
    if intercepted:
        with listening(seen):
            intercept.install()
            init(rank, world, folder)
    else:
        init(rank, world, folder)
    report = JOBS[job](rank, world)
    dist.destroy_process_group()
    clean = {table: len(getattr(c10d._world, table)) for table in TABLES}
    with open(os.path.join(folder, f"{rank}.pickle"), "wb") as file:
        pickle.dump({"report": report, "clean": clean, "init": (seen.init, seen.groups)}, file)


def init(rank, world, folder):
    store = os.path.join(folder, "store")
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=30)
    )
    meet(rank, world, folder)


def meet(rank, world, folder):
    """Wait until all have formed the group: gloo may still be connecting in one when another is through, and
    a job may do nothing else."""
    here = [os.path.join(folder, f"{slot}.formed") for slot in range(world)]
    open(here[rank], "w").close()
    until = time.monotonic() + 60
    while not all(map(os.path.exists, here)):
        assert time.monotonic() < until, "the others have not formed the group"
        time.sleep(0.005)
