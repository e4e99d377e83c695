"""What each process is handed by its launcher."""

from __future__ import annotations

from chaoskit import launched
from chaoskit.faults.environment import Environment
from chaoskit.model import Injection, Topology, Trigger
from chaoskit.network import plan_network


def test_without_virtual_hosts_there_is_one_machine() -> None:
    first, last = launched.processes(Topology(2), (), 2000, None)
    assert (first.host, last.host) == ("", "")
    told = dict(last.env)
    assert told["MASTER_ADDR"] == "127.0.0.1"
    assert (told["RANK"], told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"], told["GROUP_WORLD_SIZE"]) == (
        "1",
        "1",
        "2",
        "1",
    )


def test_each_host_has_its_own_local_ranks() -> None:
    network = plan_network(2, (), "", outside_store=False)
    found = launched.processes(Topology(5, hosts=2), (), 2000, network)
    assert [p.host for p in found] == ["hostA", "hostA", "hostA", "hostB", "hostB"]
    told = [dict(p.env) for p in found]
    assert [t["LOCAL_RANK"] for t in told] == ["0", "1", "2", "0", "1"]
    assert [t["LOCAL_WORLD_SIZE"] for t in told] == ["3", "3", "3", "2", "2"]
    assert [t["GROUP_RANK"] for t in told] == ["0", "0", "0", "1", "1"]
    assert {t["GROUP_WORLD_SIZE"] for t in told} == {"2"}
    assert {t["MASTER_ADDR"] for t in told} == {"hostA"}
    assert not any("TORCHELASTIC_USE_AGENT_STORE" in t for t in told)


def test_a_store_outside_is_nobody_s_to_host() -> None:
    network = plan_network(2, (), "", outside_store=True)
    told = dict(launched.processes(Topology(2, hosts=2), (), 2000, network)[0].env)
    assert told["MASTER_ADDR"] == "store"
    assert told["TORCHELASTIC_USE_AGENT_STORE"] == "True"


def test_a_fault_edits_what_is_handed_over() -> None:
    fault = Environment((1,), set=(("GLOO_SOCKET_IFNAME", "docker0"),), unset=("LOCAL_RANK",))
    network = plan_network(2, (), "", outside_store=False)
    first, second = launched.processes(
        Topology(2, hosts=2), (Injection(fault, Trigger("launch")),), 2000, network
    )
    assert "GLOO_SOCKET_IFNAME" not in dict(first.env)
    assert dict(second.env)["GLOO_SOCKET_IFNAME"] == "docker0"
    assert second.unset == ("LOCAL_RANK",)
