"""Ways past the methods of a group, on one rank: operators of the dispatcher, dropped Works, odd groups."""

import gc
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from chaoskit import intercept
from chaoskit.intercept import dispatched, hooks, work

pytestmark = pytest.mark.timeout(300)


class Listening:
    def __init__(self, change=None):
        self.calls, self.ends, self.change = [], [], change

    def around(self, call, proceed):
        self.calls.append((call.group, call.op, call.key()))
        return self.change(call) if self.change else proceed()

    def done(self, call, error):
        self.ends.append((call.op, error))


@pytest.fixture
def world(tmp_path):
    intercept.install()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()
        intercept.uninstall()


@pytest.fixture
def listen():
    added = []

    def add(listener):
        intercept.add(listener)
        added.append(listener)
        return listener

    yield add
    for listener in added:
        intercept.remove(listener)


def schemas():
    names = {s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("c10d::")}
    return [getattr(torch.ops.c10d, name.removeprefix("c10d::")).default._schema for name in sorted(names)]


def test_every_operator_of_the_installed_torch_that_takes_a_group_has_a_method():
    read = {schema.name: dispatched._read(schema) for schema in schemas()}
    assert {name for name, operator in read.items() if operator is None} == {"c10d::check_for_nan"}
    methods = intercept.collective_methods()
    assert {operator.method for operator in read.values() if operator} <= set(methods)
    for operator in filter(None, read.values()):
        assert operator.method in {"send", "recv", "recv_anysource", "monitored_barrier"} or (
            dispatched._options_of(operator.method)
        )


def test_operators_are_called_by_torchs_own_functions_again_after_uninstall():
    packet = torch.ops.c10d.allreduce_
    before = packet._op, packet.default._op
    intercept.install()
    assert packet._op is not before[0]
    assert packet is torch.ops.c10d.allreduce_
    intercept.uninstall()
    assert (packet._op, packet.default._op) == before


def test_an_operator_has_the_key_of_the_same_call_by_a_function(world, listen):
    seen = listen(Listening())
    tensor, box = torch.ones(3), world.boxed()
    dist.all_reduce(tensor)
    torch.ops.c10d.allreduce_([tensor], box, torch.classes.c10d.ReduceOp(), None)[1].wait()
    world.allreduce([tensor]).wait()
    torch.ops.c10d.allreduce_([tensor], world.inner.boxed(), torch.classes.c10d.ReduceOp(), None)[1].wait()
    intercept.settle()
    assert len(seen.calls) == len(seen.ends) == 4
    assert len(set(seen.calls)) == 1


def test_a_listener_can_skip_an_operator(world, listen):
    listen(Listening(intercept.finished))
    tensor = torch.ones(2)
    tensors, box = torch.ops.c10d.broadcast_([tensor], world.boxed(), 0, 0)
    intercept.settle()
    gc.collect()
    box.wait()
    assert tensors[0] is tensor


def test_an_operator_on_a_group_of_its_own_is_left_alone(world, listen, tmp_path):
    seen = listen(Listening())
    store = dist.FileStore(f"{tmp_path}/other", 1)
    plain = dist.ProcessGroup(store, 0, 1)
    backend = dist.ProcessGroupGloo(store, 0, 1)
    plain._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    torch.ops.c10d.broadcast_([torch.ones(1)], plain.boxed(), 0, 0)[1].wait()
    assert seen.calls == []


def test_a_work_that_is_dropped_ends_when_its_operation_has(world, listen):
    seen = listen(Listening())
    future = world.inner.allreduce([torch.ones(1)]).get_future()
    dist.all_reduce(torch.ones(1), async_op=True)  # its Work is gone
    assert len(work.pending) == 1
    work.pending[0][0].wait()
    intercept.settle()
    assert seen.ends == [("all_reduce", None)]
    future.wait()


def test_a_work_without_a_future_ends_when_its_box_is_waited_for(world, listen):
    seen = listen(Listening())
    total = torch.classes.c10d.ReduceOp()
    box = torch.ops.c10d._reduce_scatter_base_(torch.ones(2), torch.ones(2), world.boxed(), total)[1]
    gc.collect()
    intercept.settle()
    assert seen.ends == []
    box.wait()
    assert seen.ends == [("reduce_scatter", None)]
    assert not work._boxed


def test_few_waiting_calls_are_looked_at_for_each_collective(world, listen):
    seen = listen(Listening())
    works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(20)]
    for one in [w.get_future() for w in works]:
        one.wait()
    dist.barrier()
    assert 1 <= len([e for e in seen.ends if e[0] == "all_reduce"]) <= 3
    intercept.settle()
    assert len(seen.ends) == 21


def test_a_shrunk_group_is_wrapped(world, listen):
    seen = listen(Listening())
    backend = world._get_backend(torch.device("cpu"))
    metadata = {
        "store": world.get_group_store(),
        "new_group_name": "smaller",
        "original_group_name": "0",
        "bound_device_id": None,
        "backend_config": "cpu:gloo",
    }
    made = c10d._create_shrunk_process_group(backend, [0], metadata, False)
    try:
        assert isinstance(made, intercept.Intercepted)
        assert c10d._world.pg_backend_config[made] == "cpu:gloo"
        made.allreduce([torch.ones(1)]).wait()
        assert [group for group, _, _ in seen.calls] == ["0:shrunk"]
    finally:
        c10d._world.pg_backend_config.pop(made)


def test_torch_compile_knows_the_function_that_is_replaced():
    from torch.distributed import _functional_collectives as funcol

    before = dict(funcol.traceable_collective_remaps)
    intercept.install()
    assert dist.batch_isend_irecv in funcol.traceable_collective_remaps
    intercept.uninstall()
    assert funcol.traceable_collective_remaps == before
    assert not hooks._undo


def test_polling_prints_nothing(tmp_path):
    program = f"""
import torch, torch.distributed as dist
from chaoskit import intercept
class L:
    def around(self, call, proceed): return proceed()
    def done(self, call, error): print("ended", error)
intercept.add(L())
intercept.install()
dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
work = dist.all_reduce(torch.ones(1), async_op=True)
while not work.is_completed(): pass
dist.destroy_process_group()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "ended None\n"
    assert done.stderr == ""
