"""Which interface and address a backend is going to use on this host, before it does. Reads the environment
and this host; opens no connection.

Where it cannot be known, says so by :class:`Unknown`: a guess could end a healthy job.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from chaoskit.guards.interfaces import Address

BackendName = Literal["gloo", "nccl"]
By = Literal["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "name", "loopback", "automatic"]
"""What decides: a variable, the address of the host's own name, nothing usable there, or NCCL's own order."""
_OTHERS_MAX = 8
_INFINIBAND = Path("/sys/class/infiniband")
_NCCL_FILES = (Path("/etc/nccl.conf"), Path("~/.nccl.conf"))
_FAMILIES = {"AF_INET": socket.AF_INET, "AF_INET6": socket.AF_INET6}


class Unknown(Exception):
    """What the backend will use cannot be known here; the text says why."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``number`` counts the devices of one backend: gloo makes one for each interface it is given, and device
    n of a rank talks with device n of the others."""

    backend: BackendName
    number: int
    address: Address
    by: By


def choices(given: Mapping[str, Any], addresses: Sequence[Address]) -> list[Choice]:
    """Return what ``init_process_group(**given)`` will use, for each of its backends. Raises Unknown."""
    name = str(given.get("backend") or "undefined").lower()
    if os.environ.get("TORCH_DISTRIBUTED_USE_TORCHCOMMS", "0").lower() not in ("", "0", "false"):
        raise Unknown("the backends are those of torchcomms")
    if getattr(given.get("pg_options"), "_devices", None):
        raise Unknown("the script brings devices of its own in pg_options")
    names = {part.rpartition(":")[2] for part in name.split(",")}
    found: list[Choice] = []
    if names & {"gloo", "undefined"}:
        found += _gloo(addresses)
    if "nccl" in names:
        found += _nccl(addresses)
    if not found:
        raise Unknown(f"backend={name}")
    return found


def others(chosen: Iterable[Choice], addresses: Sequence[Address]) -> list[Address]:
    """Return what could have been chosen instead: the first address of each running interface, but loopback
    and what is of use on one link only."""
    taken = {(choice.address.interface, choice.address.ip) for choice in chosen}
    first: dict[str, Address] = {}
    for address in addresses:
        first.setdefault(address.interface, address)
    usable = [a for a in first.values() if a.runs and not a.scope and not is_loopback(a.ip)]
    return [a for a in usable if (a.interface, a.ip) not in taken][:_OTHERS_MAX]


def is_loopback(ip: str) -> bool:
    return ip.startswith("127.") or ip == "::1"


def _gloo(addresses: Sequence[Address]) -> list[Choice]:
    transport = os.environ.get("GLOO_DEVICE_TRANSPORT", "").upper()
    if transport not in ("", "TCP", "TCP_TLS"):
        raise Unknown(f"GLOO_DEVICE_TRANSPORT={transport}")
    names = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if not names:
        return [_by_own_name(addresses)]
    found = []
    for number, name in enumerate(names.split(",")):
        address = next((a for a in addresses if a.interface == name), None)
        if address is None:
            raise Unknown(f"GLOO_SOCKET_IFNAME={names}: there is no address on an interface {name!r}")
        found.append(Choice("gloo", number, address, "GLOO_SOCKET_IFNAME"))
    return found


def _by_own_name(addresses: Sequence[Address]) -> Choice:
    """gloo takes the first address of this host's own name that can be bound, else loopback."""
    try:
        rows = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        rows = []
    for family, kind, protocol, _, where in rows:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(where)
            except OSError:
                continue
        ip, scope = str(where[0]).partition("%")[0], int(where[3]) if len(where) > 2 else 0
        return Choice("gloo", 0, _interface_with(ip, family, scope, addresses), "name")
    return Choice("gloo", 0, _interface_with("127.0.0.1", socket.AF_INET, 0, addresses), "loopback")


def _interface_with(ip: str, family: int, scope: int, addresses: Sequence[Address]) -> Address:
    for address in addresses:
        same = address.ip == ip or (address.ip.startswith("127.") and ip.startswith("127."))
        if address.family == family and same:
            return Address(address.interface, family, ip, scope, address.runs)
    raise Unknown(f"no interface has the address {ip} of this host's own name")


def _nccl(addresses: Sequence[Address]) -> list[Choice]:
    """NCCL meets (its "bootstrap") on the first interface that fits, and that one alone is certain."""
    env = os.environ
    if (
        env.get("NCCL_IB_DISABLE") != "1"
        and env.get("NCCL_NET", "").lower() != "socket"
        and _has_infiniband()
    ):
        raise Unknown("NCCL talks over InfiniBand or RoCE")
    if env.get("NCCL_NET", "socket").lower() != "socket":
        raise Unknown(f"NCCL_NET={env['NCCL_NET']}")
    for name in ("NCCL_COMM_ID", "NCCL_NET_PLUGIN", "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME"):
        if env.get(name, "0") not in ("", "0", "none"):
            raise Unknown(f"{name}={env[name]}")
    if any(
        _says_interface(path.expanduser()) for path in (*_NCCL_FILES, Path(env.get("NCCL_CONF_FILE", "/")))
    ):
        raise Unknown("a configuration file of NCCL names interfaces")
    family = _FAMILIES.get(env.get("NCCL_SOCKET_FAMILY", ""))
    usable = [a for a in addresses if a.ip != "::1" and family in (None, a.family)]
    wanted = env.get("NCCL_SOCKET_IFNAME", "")
    if len(wanted) > 1:
        return [Choice("nccl", 0, _first(usable, wanted), "NCCL_SOCKET_IFNAME")]
    for names in ("ib", "^docker,lo", "docker", "lo"):
        if any(matches(a.interface, names) for a in usable):
            address = _first(usable, names)
            if address.interface.startswith("virbr"):
                raise Unknown(f"versions of NCCL differ on whether they take {address.interface}")
            return [Choice("nccl", 0, address, "automatic")]
    raise Unknown("NCCL finds no interface")


def matches(interface: str, names: str) -> bool:
    """NCCL's syntax: a list of prefixes; ``=`` before it makes them whole names, ``^`` excludes."""
    excludes, names = names.startswith("^"), names.removeprefix("^")
    exact, names = names.startswith("="), names.removeprefix("=")
    wanted = [name.partition(":")[0] for name in names.split(",")]
    found = interface in wanted if exact else any(interface.startswith(name) for name in wanted)
    return found != excludes


def _first(usable: Sequence[Address], names: str) -> Address:
    found = [a for a in usable if matches(a.interface, names)]
    if not found:
        raise Unknown(f"NCCL_SOCKET_IFNAME={names}: no interface matches")
    if not found[0].runs and any(a.runs for a in found):
        raise Unknown(f"versions of NCCL differ on whether they take {found[0].interface}, which is down")
    if found[0].scope:
        raise Unknown(f"{found[0].interface} has an address of one link only first")
    return found[0]


def _has_infiniband() -> bool:
    try:
        return any(_INFINIBAND.iterdir())
    except OSError:
        return False


def _says_interface(path: Path) -> bool:
    try:
        return "NCCL_" in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
