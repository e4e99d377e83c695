"""NCCL's version, without torch."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

import pytest

from chaoskit.gpu import cuda_build


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    cuda_build.nccl_version.cache_clear()
    yield
    cuda_build.nccl_version.cache_clear()


@pytest.mark.parametrize(
    ("code", "version"),
    [(2804, (2, 8, 4)), (2703, (2, 7, 3)), (20_901, (2, 9, 1)), (22_105, (2, 21, 5)), (23_007, (2, 30, 7))],
)
def test_the_code_of_nccl_is_read_as_its_header_makes_it(code: int, version: tuple[int, ...]) -> None:
    assert cuda_build.of_code(code) == version


@pytest.mark.parametrize(
    ("text", "version"), [("2.30.7", (2, 30, 7)), ("2.27.5.1", (2, 27, 5)), ("odd", None)]
)
def test_the_wheel_says_it(
    monkeypatch: pytest.MonkeyPatch, text: str, version: tuple[int, ...] | None
) -> None:
    def of(name: str) -> str:
        if name != "nvidia-nccl-cu12":
            raise importlib.metadata.PackageNotFoundError(name)
        return text

    monkeypatch.setattr(importlib.metadata, "version", of)
    assert cuda_build.nccl_version() == version


def test_without_wheel_and_library_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", of)
    monkeypatch.setattr(cuda_build, "_ASK", "import ctypes; ctypes.CDLL('libno-such-nccl.so')")
    assert cuda_build.nccl_version() is None
    cuda_build.nccl_version.cache_clear()
    monkeypatch.setattr(cuda_build, "_ASK", "print(23007)")
    assert cuda_build.nccl_version() == (2, 30, 7)
