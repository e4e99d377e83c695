"""How ranks share GPUs: the way, what each rank is told, and why it cannot be had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.faults.same_device import SameDevice
from chaoskit.gpu.devices import Gpu
from chaoskit.gpu.sharing import OURS, RANK_MIB, WAYS, CannotShare, Placement, overridden, place, variables

NEW, OLD = (2, 30, 3), (2, 27, 5)


def gpus(count: int, mode: str = "default") -> tuple[Gpu, ...]:
    return tuple(Gpu(n, f"Fake {n}", compute_mode=mode) for n in range(count))  # type: ignore[arg-type]


def placed(
    ranks: int, count: int, asked: str = "auto", nccl: tuple[int, ...] | None = NEW, **more: bool
) -> Placement:
    return place((ranks,), gpus(count), asked, nccl, **{"isolated": True, **more})  # type: ignore[arg-type]


def test_enough_gpus_are_not_shared_whatever_is_asked() -> None:
    for asked in WAYS:
        found = placed(4, 4, asked, None)
        assert found == Placement(4, 1)
        assert variables(found, 2) == ()
        assert found.note(1, 4) == ""


def test_by_host_ids_each_rank_is_a_host_of_its_own() -> None:
    found = placed(4, 1, nccl=None)
    assert (found.way, found.most_on_one, found.mib) == ("host-ids", 4, 4 * RANK_MIB)
    told = [dict(variables(found, slot)) for slot in range(4)]
    assert len({t["NCCL_HOSTID"] for t in told}) == 4
    assert told[2] == {
        "NCCL_HOSTID": "chaoskit-2", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_NET": "Socket",
        "NCCL_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    assert found.note(1, 4) == (
        "gpu-sharing host-ids: 4 ranks share 1 GPU, each as a host of its own (NCCL_HOSTID), over NCCL's "
        "sockets"
    )


def test_by_multi_rank_they_stay_one_host() -> None:
    found = placed(8, 3, "multi-rank")
    assert (found.way, found.most_on_one) == ("multi-rank", 3)
    assert variables(found, 5) == (("NCCL_MULTI_RANK_GPU_ENABLE", "1"),)
    assert "8 ranks share 3 GPUs, by NCCL_MULTI_RANK_GPU_ENABLE=1" in found.note(1, 8)


@pytest.mark.parametrize(
    ("nccl", "says"),
    [(OLD, "here is 2.27.5"), ((2, 29, 9), "here is 2.29.9"), (None, "could not be found out")],
)
def test_multi_rank_needs_a_new_nccl(nccl: tuple[int, ...] | None, says: str) -> None:
    with pytest.raises(CannotShare, match=says):
        placed(4, 1, "multi-rank", nccl)


def test_arms_that_share_a_network_have_no_ras_service() -> None:
    """Its port is the same for all of them."""
    alone, beside = placed(2, 2), placed(2, 2, isolated=False)
    assert variables(alone, 0) == ()
    assert variables(beside, 0) == (("NCCL_RAS_ENABLE", "0"),)
    assert variables(beside, 0, frozenset({"NCCL_RAS_ENABLE"})) == ()


def test_on_virtual_hosts_nccl_uses_their_interfaces_and_no_infiniband() -> None:
    apart = place((1, 1, 1, 1), gpus(1), "auto", OLD, isolated=True, virtual=True)
    assert apart.way is None, "their names tell the hosts apart"
    assert apart.most_on_one == 4
    assert dict(variables(apart, 0)) == {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
    together = place((2, 2), gpus(1), "auto", OLD, isolated=True, virtual=True)
    assert together.way == "host-ids"
    assert "NCCL_SOCKET_IFNAME" not in dict(variables(together, 0))
    assert "4 ranks on 2 virtual hosts share 1 GPU" in together.note(2, 4)


def test_a_gpu_that_takes_one_process_cannot_be_shared() -> None:
    with pytest.raises(
        CannotShare, match=r"GPU 0 \(Fake 0\) is in an exclusive compute mode.*nvidia-smi -c 0"
    ):
        place((2,), gpus(1, "exclusive"), "auto", NEW, isolated=True)
    assert place((2,), gpus(2, "exclusive"), "auto", NEW, isolated=True).way is None
    with pytest.raises(CannotShare, match="Prohibited"):
        place((1,), gpus(1, "prohibited"), "auto", NEW, isolated=True)
    with pytest.raises(CannotShare, match="no GPU is visible"):
        place((1,), (), "auto", NEW, isolated=True)


def test_what_a_profile_says_stays_where_it_can() -> None:
    found = placed(2, 1)
    profile = (("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_IB_DISABLE", "0"), ("NCCL_NET", "Socket"), ("X", "1"))
    assert "NCCL_SOCKET_IFNAME" not in dict(variables(found, 0, frozenset(n for n, _ in profile)))
    assert overridden(found, profile) == ("NCCL_IB_DISABLE=0",)
    assert overridden(found, (("NCCL_HOSTID", "chaoskit-0"),)) == ("NCCL_HOSTID=chaoskit-0",)


@given(st.integers(1, 64), st.integers(1, 16), st.sampled_from(WAYS), st.booleans(), st.booleans())
def test_no_two_ranks_of_one_host_meet_on_a_gpu(
    ranks: int, count: int, asked: str, isolated: bool, virtual: bool
) -> None:
    """NCCL's own rule: the same host and the same GPU, unless it is told to allow that."""
    found = placed(ranks, count, asked, isolated=isolated, virtual=virtual)
    told = [dict(variables(found, slot)) for slot in range(ranks)]
    assert {name for t in told for name in t} <= OURS
    allowed = all("NCCL_MULTI_RANK_GPU_ENABLE" in t for t in told)
    places = [(t.get("NCCL_HOSTID", ""), slot % count) for slot, t in enumerate(told)]
    assert allowed or len(set(places)) == ranks


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("asked", WAYS)
def test_the_fault_same_device_makes_them_meet(count: int, asked: str) -> None:
    found = placed(4, count, asked)
    first, second = ({"LOCAL_RANK": str(slot), **dict(variables(found, slot))} for slot in range(2))
    SameDevice((1,), of=0).environment(second)
    assert second["LOCAL_RANK"] == first["LOCAL_RANK"]
    assert second.get("NCCL_HOSTID") == first.get("NCCL_HOSTID")
    assert "NCCL_MULTI_RANK_GPU_ENABLE" not in second
