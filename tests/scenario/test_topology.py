"""Virtual hosts in a file: what is read and written, and everything that can be wrong with them."""

from __future__ import annotations

import dataclasses
import re

import generated
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.errors import InvalidInput
from chaoskit.faults.host_crash import HostCrash
from chaoskit.faults.kill import Kill
from chaoskit.faults.partition import Partition
from chaoskit.model import Arm, Expectation, Injection, Outcome, Scenario, Topology, Trigger, Workload
from chaoskit.network import Nic, plan_network
from chaoskit.rates import rate_bps, rate_text
from chaoskit.scenario import check, check_ranks, dump, parse
from chaoskit.scenario.json_schema import scenario_schema
from chaoskit.scenario.network_checks import topology_findings

HEAD = "name: x\nsummary: x\nworkload: all-reduce-loop\n"
ARMS = """arms:
  control: {profile: torch-defaults, expect: {outcome: failed}}
  hardened: {profile: strict, expect: {outcome: failed}}
"""
KILL = "faults: [{kill: {rank: 0}, when: {step: 1}}]\n"


def read(topology: str, faults: str = KILL) -> Topology:
    return parse(f"{HEAD}topology: {topology}\n{faults}{ARMS}", "x.yaml").topology


def problems(topology: str, faults: str = KILL) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(topology, faults)
    assert all(p.file == "x.yaml" and p.line >= 4 for p in caught.value.problems)
    return [f"{p.message} ({p.hint})" for p in caught.value.problems]


def test_everything_that_can_be_said() -> None:
    found = read(
        "{ranks: 4, hosts: 2, own_name: 127.0.1.1, nics: {"
        "eth0: {subnet: 10.1.0.0/24, rate: 1gbit, port: down, on: [hostB]}, eth1: {}, "
        "docker0: {same_address: 172.17.0.1/16}}}"
    )
    assert found == Topology(4, "gloo", 2, (
        Nic("eth0", "10.1.0.0/24", 1e9, "", "down", ("hostB",)),
        Nic("eth1"),
        Nic("docker0", same_address="172.17.0.1/16"),
    ), "127.0.1.1")  # fmt: skip


@pytest.mark.parametrize("topology", ["{}", "{ranks: 2}", "{ranks: 2, hosts: 1}"])
def test_one_machine_is_nothing_virtual(topology: str) -> None:
    assert not read(topology).is_virtual


@pytest.mark.parametrize("topology", ["{hosts: 2}", "{hosts: 1, nics: {eth0: {}}}", "{own_name: 127.0.1.1}"])
def test_a_single_host_may_be_virtual_too(topology: str) -> None:
    assert read(topology).is_virtual


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 6).flatmap(generated.topologies))
def test_what_is_written_is_read_back_and_can_be_planned(topology: Topology) -> None:
    assert not list(topology_findings(topology))
    assert parse(dump(scenario(topology, Kill((0,))))).topology == topology
    network = plan_network(topology.hosts, topology.nics, topology.own_name, topology.hosts > 1)
    assert all(h.address for h in network.hosts)


@given(st.floats(1e3, 400e9))
def test_a_rate_is_read_back_as_it_was(bps: float) -> None:
    assert rate_bps(rate_text(bps)) == bps


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        ("{hosts: 5}", "5 hosts for 4 ranks"),
        ("{hosts: 2, ranks: 1}", "2 hosts for 1 rank,"),
        ("{hosts: 0}", "topology.hosts must be from 1 to 200"),
        ("{hosts: 201, ranks: 300}", "topology.hosts must be from 1 to 200"),
        ("{hosts: two}", "topology.hosts must be a whole number"),
        ("{hosts: 2, nick: {}}", "unknown key `nick` \\(did you mean nics"),
        ("{hosts: 2, own_name: eth1}", "'eth1' is no interface and no address \\(did you mean eth0"),
        ("{hosts: 2, own_name: lo}", "write 127.0.0.1"),
        ("{hosts: 2, own_name: 127.0.0.1/8}", "is no interface and no address"),
        ("{hosts: 2, own_name: b, nics: {a: {}, b: {on: [hostA]}}}", "b is not on hostB"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(topology: str, said: str) -> None:
    found = problems(topology)
    assert any(re.search(said, text) for text in found), found


@pytest.mark.parametrize(
    ("nics", "said"),
    [
        ("[]", "topology.nics must be a mapping"),
        ("{eth0: 5}", "topology.nics.eth0 must be a mapping"),
        ("{eth0: {speed: 1}}", "topology.nics.eth0: unknown key `speed`"),
        ("{lo: {}}", "lo is there on every host"),
        ("{abcdefghijklmnop: {}}", "has 16 bytes; Linux takes 1 to 15"),
        ("{ääääääää: {}}", "has 16 bytes"),
        ('{"": {}}', "has 0 bytes"),
        ("{a/b: {}}", "does not take"),
        ('{"a b": {}}', "does not take"),
        ('{"a:b": {}}', "does not take"),
        ('{"eth%d": {}}', "does not take"),
        ('{".": {}}', "takes no interface that is called \\."),
        ("{all: {}}", "takes no interface that is called all"),
        ('{"^eth": {}}', "means something else in GLOO_SOCKET_IFNAME"),
        ('{"a,b": {}}', "means something else"),
        ("{eth0: {subnet: 10.1.0.5/24}}", "has host bits set \\(write 10.1.0.0/24\\)"),
        ("{eth0: {subnet: 10.1.0.0}}", "no prefix length.*write 10.1.0.0/24"),
        ("{eth0: {subnet: 'fd00::'}}", "no prefix length.*write fd00::/64"),
        ("{eth0: {subnet: 10.1.0.0/64}}", "must be a network"),
        ("{eth0: {subnet: nowhere}}", "must be a network"),
        ("{eth0: {subnet: 10.1.0.0/30}}", "2 usable addresses, too few for 2 hosts and one for"),
        ("{eth0: {subnet: 10.1.0.0/31}}", "0 usable addresses"),
        ("{eth0: {subnet: 10.1.0.0/30}}", "write 10.1.0.0/29"),
        ("{eth0: {subnet: 'fd00::/127'}}", "1 usable addresses"),
        ("{eth0: {subnet: 127.1.0.0/16}}", "holds the loopback addresses"),
        ("{eth0: {subnet: 0.0.0.0/0}}", "holds the loopback addresses"),
        ("{eth0: {subnet: 239.0.0.0/16}}", "holds multicast addresses"),
        ("{eth0: {subnet: 'fe80::/64'}}", "holds addresses that every link has"),
        ("{a: {subnet: 10.1.0.0/16}, b: {subnet: 10.1.9.0/24}}", "b.subnet: 10.1.9.0/24 overlaps"),
        ("{a: {subnet: 10.77.1.0/24}, b: {}}", "b.subnet: 10.77.1.0/24 overlaps"),
        ("{a: {subnet: 172.17.0.0/24}, b: {same_address: 172.17.0.1/16}}", "b.same_address: .*overlaps"),
        ("{a: {}, b: {same_address: 1.2.3.4/24}, c: {same_address: 1.2.3.4/24}}", "overlaps"),
        ("{a: {}, b: {same_address: 172.17.0.1}}", "no prefix length.*write 172.17.0.1/16"),
        ("{a: {}, b: {same_address: docker}}", "must be an address with its prefix"),
        ("{a: {}, b: {same_address: 127.0.0.1/8}}", "holds the loopback addresses"),
        ("{a: {}, b: {same_address: 1.2.3.4/24, subnet: 10.1.0.0/24}}", "`subnet` has no meaning"),
        ("{a: {}, b: {same_address: 1.2.3.4/24, rate: 1gbit}}", "`rate` has no meaning"),
        ("{a: {}, b: {same_address: 1.2.3.4/24, port: down}}", "`port` has no meaning"),
        ("{docker0: {same_address: 1.2.3.4/24}}", "hostA, hostB have no interface in a switch"),
        ("{eth0: {on: [hostA]}}", "hostB has no interface in a switch"),
        ("{eth0: {}, eth1: {on: [hostC]}}", "eth1.on: there is no host 'hostC' \\(did you mean"),
        ("{eth0: {on: []}}", "names no host"),
        ("{eth0: {}, eth1: {on: [hostA, hostA]}}", "names a host twice"),
        ("{eth0: {rate: 0mbit}}", "rate must be between"),
        ("{eth0: {rate: -1mbit}}", "rate must be a rate"),
        ("{eth0: {rate: 1000}}", "rate must be a rate"),
        ("{eth0: {rate: fast}}", "rate must be a rate.*write 8kbit"),
        ("{eth0: {rate: 1e9bit}}", "rate must be a rate"),
        ("{eth0: {port: half}}", "port must be one of up, down"),
    ],
)
def test_what_is_wrong_with_interfaces_is_said_with_its_line(nics: str, said: str) -> None:
    found = problems(f"{{hosts: 2, nics: {nics}}}")
    assert any(re.search(said, text) for text in found), found


@pytest.mark.parametrize(
    ("topology", "fault", "said"),
    [
        ("{ranks: 4}", "host-crash: {rank: 0}", "host-crash needs virtual hosts"),
        ("{hosts: 2}", "host-crash: {rank: 0, host: hostC}", "there is no host 'hostC'"),
        ("{hosts: 2}", "link-down: {rank: 0, nic: eth1}", "there is no interface 'eth1'"),
        (
            "{hosts: 2, nics: {a: {}, b: {same_address: 1.2.3.4/24}}}",
            "link-down: {rank: 0, nic: b}",
            "in no switch",
        ),
        ("{hosts: 2, nics: {a: {}, b: {on: [hostB]}}}", "link-down: {rank: 0, nic: b}", "hostA has no b"),
        ("{hosts: 2}", "partition: {rank: 0, apart: [hostA, hostB]}", "nobody is left"),
        ("{hosts: 2}", "partition: {rank: 0, apart: [hostZ]}", "apart: there is no host 'hostZ'"),
        ("{hosts: 1, nics: {eth0: {}}}", "partition: {rank: 0}", "needs two hosts"),
    ],
)
def test_a_fault_means_what_is_there(topology: str, fault: str, said: str) -> None:
    found = problems(topology, f"faults: [{{{fault}, when: init}}]\n")
    assert any(said in text for text in found), found


@pytest.mark.parametrize(
    ("topology", "fault"),
    [
        ("{hosts: 2}", "host-crash: {rank: 0, host: store}"),
        ("{hosts: 1, nics: {eth0: {}}}", "link-down: {rank: 0}"),
        ("{hosts: 2, nics: {a: {}, b: {on: [hostB]}}}", "link-down: {rank: 2, nic: b}"),
        ("{hosts: 2, nics: {a: {}, b: {on: [hostB]}}}", "link-down: {rank: 0, host: hostB, nic: b}"),
    ],
)
def test_what_is_there_may_be_meant(topology: str, fault: str) -> None:
    read(topology, f"faults: [{{{fault}, when: init}}]\n")


def test_all_is_said_at_once_and_a_mistake_hides_no_other() -> None:
    found = problems(
        "{hosts: 5, ranks: 4, wrong: 1, nics: {eth0: {rate: 0bit, subnet: 10.1.0.1/24}, lo: {}}}",
        "faults: [{host-crash: {rank: 0, host: hostX}, when: init}]\n",
    )
    for said in ("5 hosts", "`wrong`", "rate must", "host bits", "lo is", "hostX"):
        assert any(said in text for text in found), (said, found)


def test_a_number_of_hosts_that_cannot_be_read_causes_no_other_problem() -> None:
    found = problems("{hosts: many}", "faults: [{host-crash: {rank: 0, host: hostB}, when: init}]\n")
    assert len(found) == 1


def scenario(topology: Topology, *faults: object) -> Scenario:
    expect = Expectation((("gloo", Outcome.FAILED), ("nccl", Outcome.FAILED)))
    return Scenario(
        "x", "x", "custom", Workload("all-reduce-loop"), topology,
        tuple(Injection(f, Trigger("init")) for f in faults),  # type: ignore[arg-type]
        (Arm("control", "torch-defaults", expect), Arm("hardened", "strict", expect)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (Topology(hosts=0), "hosts must be"),
        (Topology(hosts=2, nics=(Nic("a"), Nic("a", "10.1.0.0/24"))), "is there twice"),
        (Topology(hosts=2, nics=(Nic("a", rate_bps=0.0),)), "rate must be between"),
        (Topology(hosts=2, nics=(Nic("a", rate_bps=float("nan")),)), "rate must be between"),
        (Topology(hosts=2, nics=(Nic("a", port="aside"),)), "port must be"),  # type: ignore[arg-type]
        (Topology(hosts=2, nics=tuple(Nic(f"e{n}") for n in range(17))), "17 interfaces"),
        (Topology(hosts=2, nics=(Nic("a\x00b"),)), "does not take"),
        (Topology(hosts=2, nics=(Nic("\udcff"),)), "does not take"),
    ],
)
def test_scenarios_that_are_built_in_python_are_checked_too(topology: Topology, said: str) -> None:
    found = check(scenario(topology, HostCrash((0,))))
    assert any(said in p.message for p in found), found


def test_fewer_ranks_than_hosts() -> None:
    found = scenario(Topology(4, hosts=4), Partition((0,), apart=("hostD",)))
    assert check(found) == []
    fewer = dataclasses.replace(found, topology=dataclasses.replace(found.topology, ranks=2))
    assert [p.message for p in check_ranks(fewer)] == ["topology: 4 hosts for 2 ranks, and each needs one"]


def test_the_json_schema_has_it() -> None:
    found = scenario_schema()["$defs"]
    wanted = {"ranks", "backend", "hosts", "nics", "own_name", "gpu_sharing"}
    assert set(found["TopologyFile"]["properties"]) == wanted
    assert set(found["NicFile"]["properties"]) == {"subnet", "rate", "same_address", "port", "on"}
    assert found["TopologyFile"]["properties"]["hosts"]["maximum"] == 200
