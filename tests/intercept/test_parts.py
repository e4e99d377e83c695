"""Interception without a second rank: what is intercepted, order of listeners, names, lines, hashes."""

import subprocess
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from chaoskit import intercept
from chaoskit.intercept import hooks, names, ops, work

pytestmark = pytest.mark.timeout(300)

# Methods of ProcessGroup that take no part in communication. A method that is neither here nor intercepted
# fails the test below, so that a new torch is looked at.
NOT_COLLECTIVES = {
    *("CUSTOM", "GLOO", "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL", "BackendType"),
    *("_backend_id", "_device_types", "_enable_collectives_timing", "_get_backend", "_get_backend_name"),
    *("_get_sequence_number_for_group", "_has_hooks", "_id", "_pybind11_conduit_v1_", "_register_backend"),
    *("_register_on_completion_hook", "_set_default_backend", "_set_group_desc", "_set_group_name"),
    *("_set_sequence_number_for_group", "_start_coalescing", "_wait_for_pending_works", "abort"),
    *(
        "bound_device_id",
        "boxed",
        "get_group_store",
        "group_desc",
        "group_name",
        "merge_remote_group",
        "name",
    ),
    # From torch 2.14 and 2.15 on:
    *("_add_ephemeral_timeout", "get_backend", "get_reconfigure_handle", "new_window"),
    *("register_abort_hook", "register_post_hook", "register_pre_hook", "unregister_abort_hook"),
    *("unregister_post_hook", "unregister_pre_hook", "supports_abort_hooks", "supports_completion_hooks"),
    *("supports_reconfigure", "supports_window"),
    *("rank", "set_timeout", "shutdown", "size", "split_group", "unbox", "use_pg_for_symm_mem_rendezvous"),
}


class Fake(dist.Work):
    def wait(self, timeout=timedelta(0)):
        return True


class Pending(dist.Work):
    """A Work that its test completes through `future`."""

    def __init__(self):
        super().__init__()
        self.future = torch.futures.Future()

    def is_completed(self):
        return self.future.done()

    def is_success(self):
        return self.future.done()

    def wait(self, timeout=timedelta(0)):
        return bool(self.future.wait())

    def get_future(self):
        return self.future


class Listening:
    def __init__(self, log, name="listener", change=None):
        self.log, self.name, self.change = log, name, change

    def around(self, call, proceed):
        self.log.append((self.name, call.op, call.method, call.nth))
        return self.change(call, proceed) if self.change else proceed()

    def done(self, call, error):
        self.log.append((self.name, "done", error))


@pytest.fixture
def group():
    """An intercepted group of one rank whose collectives go nowhere; `group.issued` notes them."""
    inner = dist.ProcessGroup(0, 1)
    made = intercept.Intercepted(inner, None, "default", (0,))
    issued = []

    def stub(method):
        def issue(*args, **kwargs):
            issued.append((method, args, kwargs))
            return None if method == "monitored_barrier" else Fake()

        return issue

    made._issue = {method: stub(method) for method in made._issue}
    return made, issued


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


def test_no_method_of_the_installed_process_group_slips_by():
    public = {name for name in dir(dist.ProcessGroup) if not name.startswith("__")}
    assert public - NOT_COLLECTIVES == set(intercept.collective_methods())
    for method in intercept.collective_methods():
        assert getattr(intercept.Intercepted, method) is not getattr(dist.ProcessGroup, method), method


def test_no_function_of_torch_distributed_is_without_a_canonical_name():
    known = set(intercept.collective_methods().values())
    assert known - {"reconfigure"} == {  # that is of torch 2.14 and changes who is in the group
        *("all_reduce", "all_gather", "all_to_all", "barrier", "broadcast", "coalesced", "gather"),
        *("monitored_barrier", "recv", "reduce", "reduce_scatter", "scatter", "send"),
    }
    assert ops.op_of("a_method_of_torch_9") == "a_method_of_torch_9"


@pytest.mark.parametrize("method", sorted(intercept.collective_methods()))
def test_each_method_reaches_the_listener_and_the_inner_group(group, listen, method):
    made, issued = group
    listener = listen(Listening([]))
    tensors = [torch.ones(2)]
    work = getattr(made, method)(tensors, key=1)
    if work is not None:
        assert isinstance(work, dist.Work)
        assert work.wait()
    assert listener.log == [
        ("listener", intercept.op_of(method), method, 1),
        ("listener", "done", None),
    ]
    assert issued == [(method, (tensors,), {"key": 1})]


def test_listeners_are_added_from_the_outside_in(group, listen):
    made, issued = group
    log = []

    def change(call, proceed):
        call.args = (["replaced"],)
        return proceed()

    listen(Listening(log, "outer", change))
    listen(Listening(log, "inner"))
    made.broadcast([torch.ones(1)]).wait()
    assert [entry[0] for entry in log] == ["outer", "inner", "outer", "inner"]
    assert issued == [("broadcast", (["replaced"],), {})]


def test_what_a_listener_raises_reaches_the_program_and_ends_the_call(group, listen):
    made, issued = group

    def refuse(call, proceed):
        raise LookupError("no")

    listener = listen(Listening([], change=refuse))
    with pytest.raises(LookupError):
        made.allreduce([torch.ones(1)])
    assert issued == []
    assert [type(entry[2]) for entry in listener.log if entry[1] == "done"] == [LookupError]


def issue_pending(made):
    """An all_reduce on `made`, with the Work that stands for it inside."""
    inner = Pending()
    made._issue["allreduce"] = lambda *args: inner
    return made.allreduce([torch.ones(1)]), inner


def ends(listener):
    return [entry[2] for entry in listener.log if entry[1] == "done"]


def test_a_call_whose_future_is_taken_ends_at_the_next_settle_and_once(group, listen):
    made, _ = group
    listener = listen(Listening([]))
    work, _ = issue_pending(made)
    future = work.get_future()
    intercept.settle()
    assert ends(listener) == []
    future.set_result(True)
    intercept.settle()
    assert ends(listener) == [None]
    intercept.settle()
    assert work.wait()
    assert ends(listener) == [None]
    work, _ = issue_pending(made)
    work.get_future().set_result(True)
    made.broadcast([torch.ones(1)]).wait()  # any collective settles
    assert ends(listener) == [None, None, None]


def test_a_call_that_failed_ends_with_its_error_through_the_future_and_through_wait(group, listen):
    made, _ = group
    listener = listen(Listening([]))
    work, inner = issue_pending(made)
    work.get_future().set_exception(RuntimeError("gone"))
    intercept.settle()
    assert [str(error) for error in ends(listener)] == ["gone"]
    work, inner = issue_pending(made)
    inner.future.set_exception(RuntimeError("gone too"))
    with pytest.raises(RuntimeError, match="gone too"):
        work.wait()
    assert [str(error) for error in ends(listener)] == ["gone", "gone too"]


def test_a_call_that_is_polled_ends_when_the_poll_says_so(group, listen):
    made, _ = group
    listener = listen(Listening([]))
    work, inner = issue_pending(made)
    assert not work.is_completed()
    assert ends(listener) == []
    inner.future.set_result(True)
    assert work.is_completed()
    assert work.is_completed()
    assert ends(listener) == [None]


@pytest.mark.parametrize(
    ("version", "none"),
    [("2.6.0+cu124", True), ("2.7.0", False), ("2.13.0+cpu", False), ("3.0.0a0", False), ("main", False)],
)
def test_old_torches_keep_no_python_half_of_a_work(version, none):
    assert work._keeps_none(version) is none


def test_on_such_a_torch_a_work_is_kept_until_it_ended(group, listen, monkeypatch):
    kept = {}
    monkeypatch.setattr(work, "_kept", kept)
    monkeypatch.setattr(work, "_KEPT_MAX", 3)
    made, _ = group
    listen(Listening([]))
    first = made.allreduce([torch.ones(1)])
    assert list(kept) == [first]
    first.wait()
    assert not kept
    rest = [made.allreduce([torch.ones(1)]) for _ in range(5)]
    assert list(kept) == rest[-3:]


def test_calls_are_counted_while_nobody_listens(group, listen):
    made, _ = group
    made.allreduce([torch.ones(1)])
    listener = listen(Listening([]))
    made.allreduce_coalesced([torch.ones(1)])
    assert listener.log == [("listener", "all_reduce", "allreduce_coalesced", 2)]


def test_a_listener_is_added_once_and_removed_once():
    listener = Listening([])
    intercept.add(listener)
    with pytest.raises(ValueError, match="already"):
        intercept.add(listener)
    intercept.remove(listener)
    with pytest.raises(ValueError, match="not listening"):
        intercept.remove(listener)


def test_install_is_idempotent_and_uninstall_puts_everything_back():
    from torch.distributed import device_mesh

    functions = ("_new_process_group_helper", "init_process_group", "batch_isend_irecv")
    before = [getattr(c10d, name) for name in functions]
    intercept.install()
    intercept.install()
    assert intercept.is_installed()
    assert all(getattr(c10d, name) is not f for name, f in zip(functions, before, strict=True))
    assert dist.init_process_group is c10d.init_process_group is device_mesh.init_process_group
    intercept.uninstall()
    intercept.uninstall()
    assert not intercept.is_installed()
    assert [getattr(c10d, name) for name in functions] == before
    assert dist.init_process_group is device_mesh.init_process_group is before[1]


def test_batched_p2p_stays_batched_where_the_backend_coalesces():
    # gloo does not; what is tested is that the condition for it holds for an intercepted group.
    def original(p2p_op_list):
        return type(p2p_op_list[0].group) is ProcessGroup  # noqa: F821  # the global below

    original.__globals__["ProcessGroup"] = dist.ProcessGroup

    class Op(dist.P2POp):
        def __new__(cls, group):
            return object.__new__(cls)

        def __init__(self, group):
            self.group = group

    batch = hooks._coalescing(original)
    made = intercept.Intercepted(dist.ProcessGroup(0, 1), None, "default", (0,))
    assert not original([Op(made)])
    assert batch([Op(made)])
    assert batch([Op(dist.ProcessGroup(0, 1))])


def test_names_are_numbered_only_where_groups_share_a_rank():
    names.reset()
    try:
        assert names.claim("default", (0, 1, 2, 3)) == "default"
        assert names.claim("tp", (0, 1)) == "tp"
        assert names.claim("tp", (2, 3)) == "tp"
        assert names.claim("tp", (1, 2)) == "tp#2"
        assert names.claim("tp", (2, 3)) == "tp#3"
        assert names.claim("default", (0,)) == "default#2"
    finally:
        names.reset()


def call(op, method, *args, **kwargs):
    return intercept.Call(op, method, "default", (0, 1), 1, args, kwargs, None, None)


def all_reduce(tensor, op=dist.ReduceOp.SUM):
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return call("all_reduce", "allreduce", [tensor], options)


def test_fingerprints_tell_what_ranks_must_agree_on():
    base = all_reduce(torch.ones(2)).fingerprint()
    assert base == all_reduce(torch.zeros(2)).fingerprint()
    assert 0 <= base < 2**64
    others = [
        all_reduce(torch.ones(3)),
        all_reduce(torch.ones(2, dtype=torch.int32)),
        all_reduce(torch.ones(2), dist.ReduceOp.MAX),
        call("barrier", "barrier"),
    ]
    assert len({base, *(other.fingerprint() for other in others)}) == 5
    # The same call in the short form, which takes the operator itself.
    assert call("all_reduce", "allreduce", torch.ones(2), dist.ReduceOp.SUM).fingerprint() == base


def test_fingerprints_leave_out_what_may_differ():
    assert all_reduce(torch.ones(2, 6)).fingerprint() == all_reduce(torch.ones(12)).fingerprint()

    def gather(output):
        return call("gather", "gather", output, [torch.ones(2)], root=0).fingerprint()

    assert gather([]) == gather([[torch.ones(2), torch.ones(2)]])

    def uneven(n):
        return call("all_to_all", "alltoall_base", torch.ones(n), torch.ones(4), [n], [4]).fingerprint()

    assert uneven(2) == uneven(3)
    send = call("send", "send", [torch.ones(2)], 1, 0)
    assert send.fingerprint() == call("send", "send", [torch.ones(9)], 0, 5).fingerprint()


def test_a_fingerprint_follows_replaced_arguments_and_is_the_same_in_another_process():
    changing = all_reduce(torch.ones(2))
    before = changing.fingerprint()
    changing.args = ([torch.ones(5)], *changing.args[1:])
    assert changing.fingerprint() != before
    program = (
        "import torch, torch.distributed as dist; from chaoskit import intercept;"
        "print(intercept.Call('all_reduce', 'allreduce', 'g', (0,), 1,"
        "(torch.ones(2), dist.ReduceOp.SUM), {}, None, None).fingerprint())"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(before), done.stderr


def test_tensors_are_those_of_the_current_arguments():
    a, b, c = (torch.ones(n) for n in (1, 2, 3))
    some = call("all_gather", "allgather", [[a, b]], input_tensors=[c])
    assert [t.numel() for t in some.tensors] == [1, 2, 3]
    some.args = ([[a]],)
    assert [t.numel() for t in some.tensors] == [1, 3]


def test_user_site_is_the_innermost_line_of_the_user():
    file, line, function = intercept.user_site()
    assert (file, function) == (__file__, "test_user_site_is_the_innermost_line_of_the_user")
    assert line > 0
    # pytest's frames are the next ones outside: pluggy's and its own, in site-packages.
    assert "site-packages" in intercept.user_site(skip=(__file__,))[0]


def test_importing_chaoskit_stays_cheap():
    program = "import sys, chaoskit; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "peer"),
    [
        ("send", ([torch.zeros(1)], 1, 0), {}, 7),
        ("recv", ([torch.zeros(1)],), {"srcRank": 0}, 5),
        ("recv_anysource", ([torch.zeros(1)], 0), {}, -1),
        ("send", ([torch.zeros(1)], 9, 0), {}, -1),
        ("allreduce", ([torch.zeros(1)], 1), {}, -1),
    ],
)
def test_the_peer_of_a_send_or_recv_is_a_global_rank(method, args, kwargs, peer):
    call = intercept.Call(ops.op_of(method), method, "pair", (5, 7), 1, args, kwargs, None, lambda: None)
    assert call.peer == peer
