"""The documents say what the code does: pages up to date, examples that load, links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from chaoskit.scenario import load, load_profile

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
FOLDERS = (PROJECT, PROJECT / "docs", PROJECT / "tests")
PAGES = sorted(page for folder in FOLDERS for page in folder.glob("*.md"))


def yaml_block(heading: str) -> str:
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert found is not None, heading
    return found.group(1)


def test_the_page_of_guards_is_up_to_date() -> None:
    generator = runpy.run_path(str(PROJECT / "docs" / "generate_guards.py"))
    assert (PROJECT / "docs" / "guards.md").read_text() == generator["page"](), "run `make docs`"


def test_the_readme_s_scenario_loads(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml_block("A scenario in ten lines"))
    assert [s.name for s in load([file])] == ["my-rank-killed"]


def test_the_readme_s_profile_loads(tmp_path: Path) -> None:
    file = tmp_path / "our-cluster.yaml"
    file.write_text(yaml_block("Testing your own settings"))
    assert load_profile(str(file)).name == "our-cluster"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_whole_file_of_the_page_on_hosts_is_good(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "hosts.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(name: .*?)```", page, re.DOTALL)
    file = tmp_path / "rack.yaml"
    file.write_text(block)
    (scenario,) = load([file])
    assert scenario.topology.hosts == 4
