"""Bodies of tests run on virtual hosts, as root where we are, and in a user namespace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import virtual_hosts

from chaoskit import capabilities

Body = Callable[[], None]


@pytest.fixture
def need_hosts() -> None:
    for name in ("virtual-hosts", "link-rate", "packet-rules"):
        found = capabilities.find(name)
        if not found.available:
            pytest.skip(f"{name}: {found.detail}")


@pytest.fixture
def inside(need_hosts: None) -> Callable[[Body], None]:
    """Run a body in a child, with whatever rights we have."""
    return virtual_hosts.in_child


@pytest.fixture(params=["as we are", "user namespace"])
def inside_both(need_hosts: None, request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Run a body in a child, as we are and as root of a user namespace."""
    return lambda body: virtual_hosts.in_child(body, user_namespace=request.param == "user namespace")
