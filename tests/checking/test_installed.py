"""What the installed torch contains: of a folder that looks like one, and of the real one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit.checking import Finding, Target, installed, read_target
from chaoskit.checking.installed import PREFIXES, Installed
from chaoskit.errors import InvalidInput
from chaoskit.profiles.variable import NCCL
from chaoskit.profiles.variables import VARIABLES


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "version.py").write_text("__version__ = '2.13.0+cpu'\n")
    library = b"\0TORCH_NCCL_BLOCKING_WAIT\0\x90TORCH_GLOO_LAZY_\x90INIT\0junk_GLOO_SOCKET_IFNAME"
    (folder / "lib" / "libtorch_cpu.so").write_bytes(library)
    (folder / "lib" / "empty.so").write_bytes(b"")
    (folder / "used.py").write_text("os.environ.get('TORCH_DIST_INIT_BARRIER')\n")
    return folder


def test_names_in_libraries_and_python_files(torch: Path) -> None:
    one = Installed(str(torch), "2.13.0")
    assert one.names("TORCH_NCCL_BLOCKING_WAIT") and one.names("TORCH_DIST_INIT_BARRIER")
    assert one.contains("NCCL_BLOCKING_WAIT")  # as the end of another name
    assert one.contains("TORCH_GLOO_LAZY_INIT") and not one.names(
        "TORCH_GLOO_LAZY_INIT"
    )  # built piece by piece
    assert one.contains("GLOO_SOCKET_IFNAME")
    assert not one.contains("TORCH_FR_BUFFER_SIZE")
    assert not one.has_nccl


def test_a_search_is_kept_per_build(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Installed(str(torch), "2.13.0")
    assert not first.contains("TORCH_FR_BUFFER_SIZE")
    searched: list[Path] = []
    monkeypatch.setattr(installed, "_in_file", lambda path: searched.append(path) or iter(()))
    installed._FOUND.clear()
    assert first.contains("TORCH_NCCL_BLOCKING_WAIT") and not searched
    library = torch / "lib" / "libtorch_cpu.so"
    os.utime(library, (1, 1))  # another build
    installed._FOUND.clear()
    assert not first.contains("TORCH_NCCL_BLOCKING_WAIT") and searched


def test_a_cache_that_cannot_be_used(torch: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for broken in (tmp_path / "file", Path("/proc/nowhere")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(broken))
        installed._FOUND.clear()
        assert Installed(str(torch), "2.13.0").names("TORCH_NCCL_BLOCKING_WAIT")


def test_a_variable_that_the_installed_torch_does_not_name(
    torch: Path, found: Callable[..., list[Finding]]
) -> None:
    target = Target((2, 13), "2.13.0", backend="gloo", evidence=Installed(str(torch), "2.13.0"))
    (finding,) = found({"TORCH_FR_BUFFER_SIZE": "5", "TORCH_DIST_INIT_BARRIER": "1"}, target=target)
    assert (finding.level.value, finding.rule, finding.subject) == (
        "warning",
        "no-reader",
        "TORCH_FR_BUFFER_SIZE",
    )
    # of a build without NCCL nothing is known there
    nccl = Target((2, 13), "2.13.0", backend="nccl", evidence=Installed(str(torch), "2.13.0"))
    assert found({"TORCH_NCCL_HIGH_PRIORITY": "1"}, target=nccl) == []


def test_a_name_that_the_installed_torch_has_is_no_slip(
    torch: Path, found: Callable[..., list[Finding]]
) -> None:
    (torch / "new.py").write_text("'TORCH_NCCL_BLOCKING_WAITS'\n")
    plain = Target((2, 13), "2.13.0")
    assert [f.level.value for f in found({"TORCH_NCCL_BLOCKING_WAITS": "1"}, target=plain)] == ["error"]
    knowing = Target((2, 13), "2.13.0", evidence=Installed(str(torch), "2.13.0"))
    assert found({"TORCH_NCCL_BLOCKING_WAITS": "1"}, target=knowing) == []


def test_the_tables_agree_with_the_installed_torch() -> None:
    one = installed.find()
    target = read_target()
    assert target.torch is not None and target.evidence == one
    for name, variable in VARIABLES.items():
        if not name.startswith(PREFIXES) or (variable.backends == NCCL and not one.has_nccl):
            continue
        read = variable.is_read(target.torch, "gloo" if "gloo" in variable.backends else "nccl-legacy")
        if read:
            assert one.contains(name), f"{name} is in the tables, and torch {one.version} does not contain it"
        elif read is False:
            assert not one.names(name), (
                f"torch {one.version} contains {name}, and the tables say that it does not"
            )


@pytest.mark.parametrize(("torch_version", "nccl"), [("x", None), ("2.3", None), ("", None), ("2.13", "new")])
def test_versions_that_are_none(torch_version: str, nccl: str | None) -> None:
    with pytest.raises(InvalidInput):
        read_target(torch_version, nccl)


def test_another_torch_is_not_looked_into() -> None:
    target = read_target("2.6.0+cu124", backend="nccl")
    assert (target.torch, target.evidence, target.nccl) == ((2, 6), None, None)


def test_no_torch_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed.importlib.util, "find_spec", lambda _: None)
    assert read_target().torch is None
