"""How values are read, against what torch and NCCL make of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.checking.values import wrong_with
from chaoskit.profiles.nccl import nccl_variables
from chaoskit.profiles.variables import VARIABLES

KNOWN = {**nccl_variables(), **VARIABLES}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_NCCL_BLOCKING_WAIT", "1"), ("TORCH_NCCL_BLOCKING_WAIT", "No"),
        ("TORCH_NCCL_BLOCKING_WAIT", "TRUE"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"), ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", " 600"),
        ("TORCH_DISTRIBUTED_DEBUG", "info"), ("NCCL_DEBUG", "warn"), ("NCCL_DEBUG", ""),
        ("NCCL_IB_DISABLE", "1"),
        ("NCCL_BUFFSIZE", "0x400000"), ("NCCL_MIN_NCHANNELS", "-2"), ("NCCL_SOCKET_IFNAME", "^docker,lo"),
        ("NCCL_SOCKET_IFNAME", "=eth0,eth1"), ("GLOO_SOCKET_IFNAME", "eth0,ib0.8001"),
        ("OMP_NUM_THREADS", "4,2"),
        ("PYTHONFAULTHANDLER", "1"), ("TORCH_DIST_INIT_BARRIER", "0"), ("NCCL_ALGO", "^NVLS"),
        ("TORCH_NCCL_USE_COMM_NONBLOCKING", "1"), ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ("NCCL_ALGO", "allreduce:tree,RING;broadcast:^ring"), ("NCCL_PROTO", "^LL128"),
        ("NCCL_P2P_LEVEL", "PHB"), ("NCCL_P2P_LEVEL", "5"),
        ("NCCL_DEBUG_SUBSYS", "^init,NET"), ("MASTER_PORT", "29500"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "0" * 5000 + "7"),
    ],
)  # fmt: skip
def test_values_that_are_taken(name: str, value: str) -> None:
    assert wrong_with(KNOWN[name], value) is None


@pytest.mark.parametrize(
    ("name", "value", "level", "words", "hint"),
    [
        ("TORCH_NCCL_BLOCKING_WAIT", "on", "error", "raises", "write 1 or 0"),
        ("TORCH_NCCL_BLOCKING_WAIT", "", "error", "raises", "write 1 or 0"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "10m", "error", "is read as 10 s", "write 600"),
        ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "2s", "error", "is read as 2 ms", "write 2000"),
        ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0.5", "error", "is read as 0 ms", "write a whole number"),
        ("TORCH_FR_BUFFER_SIZE", "many", "error", "raises", "write a whole number"),
        ("TORCH_FR_BUFFER_SIZE", "99999999999", "error", "raises", "write a whole number"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "4", "error", "no value", "from 0 to 3"),
        ("TORCH_DISTRIBUTED_DEBUG", "1", "error", "raises when torch is imported", "OFF, INFO, DETAIL"),
        ("NCCL_IB_DISABLE", "true", "error", "reads it as 0", "write 1"),
        ("NCCL_BUFFSIZE", "4M", "error", "is read as 4", "whole number"),
        ("NCCL_DEBUG", "DEBUG", "warning", "does not know", "WARN"),
        ("GLOO_SOCKET_IFNAME", "^docker0", "error", "exact names", "eth0"),
        ("GLOO_SOCKET_IFNAME", "", "error", "exact names", "eth0"),
        ("NCCL_SOCKET_IFNAME", "eth*", "warning", "matches no interface", "a prefix"),
        ("TORCH_DIST_INIT_BARRIER", "true", "warning", "read as off", "1 or 0"),
        ("TORCH_NCCL_USE_COMM_NONBLOCKING", "true", "error", "is ignored", "1 or 0"),
        ("PYTHONFAULTHANDLER", "0", "warning", "any text turns it on", "leave it out"),
        ("OMP_NUM_THREADS", "auto", "warning", "no number of threads", "from 1"),
        ("NCCL_ALGO", "Ring,Treee", "warning", "does not know 'Treee'", "NVLSTree"),
        ("NCCL_PROTO", "allreduce:LL,fast", "warning", "does not know 'fast'", "LL128"),
        ("NCCL_P2P_LEVEL", "nvl", "warning", "ignores it", "write NVL"),
        ("NCCL_DEBUG_SUBSYS", "INIT,ALLES", "warning", "does not know 'ALLES'", "BOOTSTRAP"),
        ("MASTER_PORT", "70000", "error", "is no port", "65535"),
        ("MASTER_PORT", "٢٩٥٠٠", "error", "is no port", "65535"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "9" * 5000, "error", "raises", "whole number"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "٣", "error", "raises", "whole number"),
        ("NCCL_BUFFSIZE", "٣", "error", "reads it as 0", "whole number"),
        ("NCCL_BUFFSIZE", "1" * 5000 + "x", "error", "is read as", "whole number"),
        ("OMP_NUM_THREADS", "9" * 5000, "warning", "no number of threads", "from 1"),
    ],
)
def test_values_that_are_not(name: str, value: str, level: str, words: str, hint: str) -> None:
    wrong = wrong_with(KNOWN[name], value)
    assert wrong is not None
    assert (wrong.level.value, words in wrong.message, hint in wrong.hint) == (level, True, True)


@given(st.sampled_from(sorted(KNOWN)), st.text(max_size=30))
def test_any_text_is_judged(name: str, value: str) -> None:
    wrong = wrong_with(KNOWN[name], value)
    assert wrong is None or wrong.message


@given(st.integers(0, 2**31 - 1))
def test_whole_numbers_are_taken_by_every_number(number: int) -> None:
    for variable in KNOWN.values():
        if variable.kind in ("torch-int", "nccl-int") and getattr(variable, "high", None) is None:
            assert wrong_with(variable, str(number)) is None
