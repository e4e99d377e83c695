"""Every pair of ranks tries the interface that the backend will use. Healthy jobs are left alone, whatever is
slow, late, gone or broken."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import pytest
import torch.distributed as dist
from guards.job import Ended, Gate, start

from chaoskit.guards import interfaces, nic_check, nic_checking, torch_hooks
from chaoskit.guards.nic_check import NicCheck

CHECK = NicCheck(wait_s=30.0, connect_timeout_s=10.0)


def form() -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


def said(ended: Ended) -> list[str]:
    """What the guard says beyond that it is armed."""
    return [line for line in ended.err.splitlines() if "guard nic_check" in line and ": armed" not in line]


def test_a_healthy_job_hears_nothing_of_it() -> None:
    again = Gate()

    def twice() -> None:
        form()
        if os.environ["RANK"] == "0":
            again.open(2)  # its store is gone: nobody takes the old one for the new one
        else:
            again.wait()
        form()

    for ended in start(twice, CHECK, ranks=3).wait(60.0):
        assert (ended.code, said(ended)) == (0, []), ended.err


def test_one_rank_has_nobody_to_try() -> None:
    (ended,) = start(form, CHECK, ranks=1).wait(30.0)
    assert (ended.code, said(ended)) == (0, []), ended.err


@pytest.mark.parametrize("variables", [{"GLOO_SOCKET_IFNAME": "lo"}, {"GLOO_SOCKET_IFNAME": "lo,lo"}])
def test_loopback_is_healthy_on_one_host(variables: dict[str, str | None]) -> None:
    for ended in start(form, CHECK, env={0: variables, 1: variables}).wait(60.0):
        assert (ended.code, said(ended)) == (0, []), ended.err


def test_a_rank_that_comes_late_is_waited_for() -> None:
    def late() -> None:
        if os.environ["RANK"] == "1":
            time.sleep(1.5)  # is the subject: longer than a connection may take
        form()

    for ended in start(late, NicCheck(wait_s=30.0, connect_timeout_s=1.0)).wait(60.0):
        assert (ended.code, said(ended)) == (0, []), ended.err


def test_a_rank_that_gets_no_turn_is_not_called_unreachable() -> None:
    """Its kernel takes the connections; it answers them a second and a half later."""

    def busy() -> None:
        if os.environ["RANK"] == "0":
            holding = nic_checking.knock

            def hold_then_knock(*args: object) -> object:
                ctypes.PyDLL(None).usleep(1_500_000)  # with the GIL: no thread of this process runs
                return holding(*args)  # type: ignore[arg-type]

            nic_checking.knock = hold_then_knock  # type: ignore[assignment]
        form()

    for ended in start(busy, NicCheck(wait_s=30.0, connect_timeout_s=1.0), ranks=3).wait(60.0):
        assert (ended.code, said(ended)) == (0, []), ended.err


def test_it_steps_aside_for_a_rank_that_never_comes() -> None:
    def lost() -> None:
        if os.environ["RANK"] == "1":
            os._exit(3)
        begun = time.monotonic()
        torch_hooks._init_hooks[-1].before_init({"backend": "gloo"})
        print(f"waited {time.monotonic() - begun:.1f}")

    first, second = start(lost, NicCheck(wait_s=0.5, connect_timeout_s=1.0)).wait(30.0)
    assert (first.code, second.code) == (0, 3)
    assert said(first) == []
    assert "waited" in first.out


def test_it_steps_aside_for_a_rank_that_dies_meanwhile() -> None:
    def dying() -> None:
        nic_checking._GRACE_S = 0.5  # type: ignore[misc]
        if os.environ["RANK"] == "1":
            nic_checking.knock = lambda *_: os._exit(3)  # type: ignore[assignment]
        torch_hooks._init_hooks[-1].before_init({"backend": "gloo"})

    first, second = start(dying, NicCheck(wait_s=10.0, connect_timeout_s=1.0)).wait(30.0)
    assert (first.code, second.code) == (0, 3), first.err
    assert said(first) == []


def test_a_store_that_never_answers_does_not_hold_it_up() -> None:
    reader, writer = os.pipe()
    host = os.fork()
    if host == 0:
        kept = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        os.write(writer, str(kept.port).encode())
        signal.pause()
        os._exit(1)
    port = int(os.read(reader, 10))

    def frozen() -> None:
        nic_check._SLACK_S, nic_checking._GRACE_S = 0.2, 0.1  # type: ignore[misc]
        store = dist.TCPStore("127.0.0.1", port, None, False)
        os.kill(host, signal.SIGSTOP)
        torch_hooks._init_hooks[-1].before_init({"backend": "gloo", "store": store})
        print("went on", flush=True)
        os._exit(0)  # a client of a frozen store cannot be torn down

    try:
        alone = {0: {"WORLD_SIZE": "2"}}
        (ended,) = start(frozen, NicCheck(wait_s=0.5, connect_timeout_s=1.0), ranks=1, env=alone).wait(30.0)
    finally:
        os.kill(host, signal.SIGKILL)
        os.waitpid(host, 0)
        os.close(reader)
        os.close(writer)
    assert "went on" in ended.out, ended.err
    assert "the store does not answer, so the interfaces were not checked" in said(ended)[0]


def test_a_check_that_breaks_says_so_and_the_job_goes_on() -> None:
    def broken() -> None:
        if os.environ["RANK"] == "1":
            interfaces.addresses = lambda: 1 // 0  # type: ignore[assignment,return-value]
        form()

    first, second = start(broken, CHECK).wait(60.0)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert said(first) == []
    assert "the check of the interfaces broke (ZeroDivisionError" in said(second)[0]


@pytest.mark.parametrize(
    ("given", "variables", "why"),
    [
        ({"backend": "gloo"}, {"GLOO_DEVICE_TRANSPORT": "IBVERBS"}, "GLOO_DEVICE_TRANSPORT=IBVERBS"),
        ({"backend": "nccl"}, {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "1"}, "NCCL_NET=IB"),
        ({"backend": "ucc"}, {}, "backend=ucc"),
        ({"backend": "gloo", "init_method": "file:///x"}, {}, "init_method=file:///x"),
    ],
)
def test_what_cannot_be_known_is_not_applicable(
    given: dict[str, object], variables: dict[str, str | None], why: str
) -> None:
    def ask() -> None:
        torch_hooks._init_hooks[-1].before_init(dict(given))

    for slot, ended in enumerate(start(ask, CHECK, env={0: variables, 1: variables}).wait(60.0)):
        assert ended.code == 0, ended.err
        assert slot or f"guard nic_check: not applicable here ({why})" in ended.err, ended.err


@pytest.mark.parametrize("text", ["10", "10gb", "0gbit", "fast", "-1gbit"])
def test_a_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"min_rate must be .*write 8kbit, 100mbit or 10gbit"):
        NicCheck(min_rate=text)


def test_a_scaled_profile_leaves_a_second_for_a_connection() -> None:
    def effective() -> None:
        print(threading.active_count())

    (ended,) = start(effective, NicCheck().scaled(1 / 400), ranks=1).wait(30.0)
    assert "guard nic_check: armed (connect_timeout=1s, wait=0.75s)" in ended.err
