"""Ends the server that forks the ranks."""

from collections.abc import Iterator

import forked_ranks
import pytest


@pytest.fixture(scope="session", autouse=True)
def rank_server() -> Iterator[None]:
    yield
    if forked_ranks.Server._shared is not None:
        forked_ranks.Server._shared.close()
