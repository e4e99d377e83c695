"""What ranks inherit is in the key of each cell: variables and plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoskit.matrix.surroundings import environment, plugins

PLAIN = {"OMP_NUM_THREADS": "1", "HOME": "/somewhere"}


@pytest.mark.parametrize(
    "more", [{"OMP_NUM_THREADS": "2"}, {"MKL_NUM_THREADS": "1"}, {"PYTHONPATH": "/x"}, {"MY_VAR": "\udcff"}]
)
def test_what_ranks_inherit_counts(more: dict[str, str]) -> None:
    assert environment({**PLAIN, **more}) != environment(PLAIN)


@pytest.mark.parametrize(
    "more", [{"SHLVL": "2"}, {"SSH_TTY": "/dev/pts/1"}, {"NCCL_DEBUG": "INFO"}, {"_": "x"}]
)
def test_what_no_rank_gets_or_feels_does_not(more: dict[str, str]) -> None:
    assert environment({**PLAIN, **more}) == environment(PLAIN)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "my_guards.py").write_text("A = 1\n")
    info = tmp_path / "my_guards-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-guards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chaoskit.guards]\nmine = my_guards:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.path_importer_cache.pop(str(tmp_path), None)
    plugins.cache_clear()


def test_a_plug_in_counts_with_its_version_and_its_files(plugin: Path) -> None:
    def digest() -> str:
        plugins.cache_clear()
        return plugins()

    before = digest()
    assert before and digest() == before
    (plugin / "my_guards.py").write_text("A = 2\n")
    changed = digest()
    assert changed != before
    (plugin / "my_guards-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-guards\nVersion: 1.1.0\n"
    )
    assert digest() != changed
    assert "my_guards" not in sys.modules, "it is read, not run"
