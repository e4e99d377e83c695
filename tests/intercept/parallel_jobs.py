"""What frameworks and rare interfaces of torch issue; `rank_server.py` runs it, `test_parallel.py` judges.

Each function is one program: what it returns has to be the same with and without interception. Not a test
file.
"""

import copy
import os
import socket
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from rank_jobs import Seen, data, list_of, listening, net, train, whole
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from chaoskit import intercept


def batch(rank, step=0):
    return data(rank, 12, seed=step).reshape(3, 4)


def trained(model, rank, steps=3):
    train(model, rank, steps)
    return whole(model)


# --- DDP ---------------------------------------------------------------------------------------


class Unused(nn.Module):
    """Its second branch takes part in every other step."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second, self.calls = nn.Linear(4, 2), nn.Linear(4, 2), 0

    def forward(self, x):
        self.calls += 1
        return self.first(x) + (self.second(x) if self.calls % 2 else 0)


def ddp_find_unused(rank, world):
    return trained(DistributedDataParallel(Unused(), find_unused_parameters=True), rank)


def ddp_static_graph(rank, world):
    return trained(DistributedDataParallel(net(), static_graph=True), rank)


def ddp_bucket_views_of_one_parameter(rank, world):
    return trained(DistributedDataParallel(net(), gradient_as_bucket_view=True, bucket_cap_mb=1e-5), rank, 4)


def ddp_no_sync(rank, world):
    model = DistributedDataParallel(net())
    with model.no_sync():
        model(batch(rank)).sum().backward()
    return trained(model, rank)


def ddp_buffers(rank, world):
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    return trained(model, rank), list(model.module.buffers())


def ddp_builtin_hook(rank, world):
    model = DistributedDataParallel(net())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    return trained(model, rank)


def ddp_python_hooks(rank, world):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    out = []
    for state, hook in (
        (None, default_hooks.fp16_compress_hook),
        (None, default_hooks.allreduce_hook),
        (powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook),
    ):
        model = DistributedDataParallel(net())
        model.register_comm_hook(state, hook)
        out.append(trained(model, rank, 4))
    return out


def ddp_join(rank, world):
    from torch.distributed.algorithms.join import Join

    model = DistributedDataParallel(net())
    with Join([model]):
        for step in range(2 + rank):
            model(batch(rank, step)).sum().backward()
    return [p.grad for p in model.parameters()]


def ddp_zero(rank, world):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    for step in range(2):
        model(batch(rank, step)).sum().backward()
        optimizer.step()
    return whole(model)


def model_averaging(rank, world):
    from torch.distributed.algorithms.model_averaging import averagers

    model = net()
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=0)
    model(batch(rank)).sum().backward()  # those without a gradient are left out
    for _ in range(4):
        averager.average_parameters(model.parameters())
    return whole(model)


# --- sharding ----------------------------------------------------------------------------------


def fsdp1(rank, world):
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"))
    train(model, rank)
    with FullyShardedDataParallel.summon_full_params(model):
        return [p.detach().clone() for p in model.parameters()]


def fsdp2_mixed(rank, world):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = net()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in (model[0], model[2]):
        fully_shard(layer, mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mp_policy=policy)
    return trained(model, rank)


def fsdp2_state_dict(rank, world):
    from torch.distributed.checkpoint import state_dict
    from torch.distributed.fsdp import fully_shard

    model = net()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    model(batch(rank)).sum().backward()
    optimizer.step()
    options = state_dict.StateDictOptions(full_state_dict=True)
    found = state_dict.get_state_dict(model, optimizer, options=options)
    state_dict.set_model_state_dict(model, found[0], options=options)
    full = {k: v.full_tensor() if hasattr(v, "full_tensor") else v for k, v in found[0].items()}
    return full, whole(model)


def dcp_async(rank, world):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor

    path = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(path)
    mesh = dist.init_device_mesh("cpu", (world,))
    state = {"w": distribute_tensor(data(7, 8), mesh, [Shard(0)])}
    dcp.async_save(state, checkpoint_id=path[0]).result()
    loaded = {"w": distribute_tensor(torch.zeros(8), mesh, [Shard(0)])}
    dcp.load(loaded, checkpoint_id=path[0])
    return loaded["w"].to_local(), loaded["w"].full_tensor()


def tensor_parallel(rank, world):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return trained(model, 0)


def pipeline(rank, world):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = PipelineStage(net()[2 * rank : 2 * rank + 2], rank, world, torch.device("cpu"))

    def loss(out, target):
        return (out - target).square().sum()

    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss)
    losses = []
    if rank == 0:
        schedule.step(data(0, 16).reshape(4, 4))
    else:
        schedule.step(target=torch.zeros(4, 2), losses=losses)
    return [p.grad for p in stage.submod.parameters()], losses


# --- interfaces --------------------------------------------------------------------------------


def autograd_collectives(rank, world):
    from torch.distributed.nn import functional

    x = data(rank).requires_grad_()
    gathered = sum(functional.all_gather(x))
    total = functional.all_reduce(x * gathered)
    functional.broadcast(total, src=0).sum().backward()
    y = data(rank, 4 * world).requires_grad_()
    ag = funcol.all_gather_tensor_autograd(y, 0, dist.group.WORLD)
    funcol.reduce_scatter_tensor_autograd(ag, "sum", 0, dist.group.WORLD).sum().backward()
    return x.grad, y.grad, total.detach()


def functional_p2p(rank, world):
    ops, name, other = torch.ops._c10d_functional, dist.group.WORLD.group_name, 1 - rank
    x, got = data(rank), torch.zeros(4)
    if rank == 0:
        ops.wait_tensor(ops.isend(x, other, 0, name))
    else:
        ops.wait_tensor(ops.irecv(got, other, 0, name))
    both = ops.batch_p2p_ops(["isend", "irecv"], [other, other], [0, 0], [x, torch.zeros(4)], name)
    return got, [ops.wait_tensor(t).clone() for t in both][1:]


def compiled(rank, world):
    """By torch.compile: in one graph, with a graph break between two collectives, and DDP as a whole."""

    def whole_graph(x):
        dist.all_reduce(x)
        return funcol.all_gather_tensor(x, 0, dist.group.WORLD) * 2

    def broken(x):
        dist.all_reduce(x)
        torch._dynamo.graph_break()
        out = [torch.zeros(4), torch.zeros(4)]
        dist.all_gather(out, x)
        return sum(out)

    model = DistributedDataParallel(net())
    train(torch.compile(model, backend="eager"), rank)
    return (
        torch.compile(whole_graph, backend="aot_eager", fullgraph=True)(data(rank)),
        torch.compile(broken, backend="eager")(data(rank)),
        whole(model),
    )


def recorded(rank, world):
    """A graph of make_fx, run twice: it names the inner group, and on gloo it waits for nothing."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x):
        dist.all_reduce(x)
        return x + 1

    graph = make_fx(function)(data(rank))
    graph(data(rank))
    graph(data(rank, seed=2))
    dist.barrier()


def counted(rank, world):
    """Under a dispatch mode, which issues every operator once more from Python."""
    from torch.distributed.tensor.debug import CommDebugMode

    x = data(rank)
    with CommDebugMode() as mode:
        dist.all_reduce(x)
        total = torch.classes.c10d.ReduceOp()
        torch.ops.c10d.allreduce_([x], dist.group.WORLD.boxed(), total, None)[1].wait()
    return x, mode.get_total_counts()


def independent(rank, world):
    """A group that torch keeps in no table."""
    from torch.distributed import _dist2

    port, kept = [None], socket.socket()
    if rank == 0:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))  # and does not listen: nobody else is given it, and the store may have it
        port = [kept.getsockname()[1]]
    dist.broadcast_object_list(port)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port[0]))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    group = _dist2.new_group("gloo", timedelta(seconds=20), "cpu")
    kept.close()
    x = data(rank)
    group.allreduce([x]).wait()
    with _dist2.process_group(group):
        _dist2.current_process_group().broadcast(x, 1).wait()
    group.barrier().wait()  # the store ends with rank 0
    return x, group.group_name, isinstance(group, dist.ProcessGroup)


# --- operators of torch.ops.c10d ---------------------------------------------------------------


def dispatched(rank, world):
    """Each, in both spellings; what it returns, and what is in the tensors."""
    ops, group = torch.ops.c10d, dist.group.WORLD.boxed()
    other, total = 1 - rank, torch.classes.c10d.ReduceOp()

    def done(result):
        result, work = result if isinstance(result, tuple) else (None, result)
        if work is not None:
            work.wait()
        return result

    def gathered():
        return [list_of(world)]

    a, many = data(rank), [data(rank, seed=s) for s in range(world)]
    out, outs, wide = torch.zeros(4), list_of(world), torch.zeros(4 * world)
    report = [
        done(ops.allreduce_([a], group, total, None)),
        done(ops.allreduce_.default([a], group, total, None, False, 9000)),
        done(ops.allreduce_coalesced_(tensors=many, process_group=group, reduce_op=total)),
        done(ops.broadcast_([a], group, 1, 0)),
        done(ops.allgather_(gathered(), [a], group)),
        done(ops._allgather_base_(wide, a, group)),
        done(ops.allgather_coalesced_([[torch.zeros(4)] for _ in range(world)], [a], group)),
        done(ops.allgather_into_tensor_coalesced_([wide], [data(rank)], group)),
        done(ops.reduce_scatter_([out], [many], group, total)),
        done(ops._reduce_scatter_base_(out, torch.cat(many), group, total)),
        done(ops.reduce_scatter_tensor_coalesced_([out], [torch.cat(many)], group, total)),
        done(ops.reduce_([a], group, total, 0, 0)),
        done(ops.gather_(gathered() if rank == 0 else [], [a], group, 0)),
        done(ops.scatter_([out], [many] if rank == 0 else [], group, 0)),
        done(ops.alltoall_(outs, many, group)),
        done(ops.alltoall_base_(wide, torch.cat(many), group, [], [])),
        done(ops.barrier(a, group, [], True, 9000)),
        done(ops.send([a], group, other, 3) if rank == 0 else ops.recv_([out], group, other, 3)),
        done(ops.send([a], group, other, 4) if rank == 0 else ops.recv_any_source_([out], group, 4)),
        done(ops.monitored_barrier_(a, group, [], 9000, True)),
    ]
    return report, copy.deepcopy([a, many, out, outs, wide] if rank else [many, out, outs])


# --- meshes ------------------------------------------------------------------------------------


def hybrid_sharding(rank, world):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    model = net()
    fully_shard(model, mesh=mesh)
    return trained(model, rank)


def two_dimensions(rank, world):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(net(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    return trained(model, mesh["dp"].get_local_rank())


def redistribution(rank, world):
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    x = distribute_tensor(data(7, 64).reshape(8, 8), mesh, [Shard(0), Shard(1)])
    moved = x.redistribute(mesh, [Shard(1), Replicate()]).redistribute(mesh, [Replicate(), Shard(0)])
    partial = (x @ moved).redistribute(mesh, [Replicate(), Replicate()])
    flat = mesh._flatten("all")
    summed = x.sum()
    assert any(isinstance(p, Partial) for p in summed.placements)
    return moved.full_tensor(), partial.to_local(), summed.full_tensor(), flat.size()


PROGRAMS = {
    f.__name__: f
    for f in (
        *(ddp_find_unused, ddp_static_graph, ddp_bucket_views_of_one_parameter, ddp_no_sync, ddp_buffers),
        *(ddp_builtin_hook, ddp_python_hooks, ddp_join, ddp_zero, model_averaging, fsdp1, fsdp2_mixed),
        *(fsdp2_state_dict, dcp_async, tensor_parallel, pipeline, autograd_collectives, functional_p2p),
        *(compiled, recorded, counted, independent, dispatched),
    )
}
ON_MESHES = {f.__name__: f for f in (hybrid_sharding, two_dimensions, redistribution)}


def _each(programs, rank, world):
    report = {}
    for name, function in programs.items():
        with listening(Seen()) as seen:
            result = function(rank, world)
            intercept.settle()
        report[name] = (result, seen.calls, seen.ends)
    return report


def parallel(rank, world):
    return _each(PROGRAMS, rank, world)


def meshes(rank, world):
    return _each(ON_MESHES, rank, world)


JOBS = {"parallel": parallel, "meshes": meshes}
