"""What pip, make and the README are promised: the metadata, the pins, the targets."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2]
METADATA: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


def requirements() -> dict[str, Requirement]:
    extras = METADATA["optional-dependencies"].values()
    texts = [*METADATA["dependencies"], *(text for extra in extras for text in extra)]
    return {r.name.lower(): r for r in map(Requirement, texts)}


def pins() -> dict[str, Requirement]:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {r.name.lower(): r for r in parsed}


def test_any_torch_that_is_already_there_is_left_alone() -> None:
    torch = requirements()["torch"]
    assert str(torch) == "torch", "a bound would make pip replace the build under test"


def test_no_dependency_excludes_newer_releases() -> None:
    assert [str(r) for r in requirements().values() if any(s.operator != ">=" for s in r.specifier)] == []


def test_every_dependency_is_pinned_for_make() -> None:
    assert sorted(requirements().keys() - pins().keys()) == []
    loose = [str(r) for r in pins().values() if [s.operator for s in r.specifier] != ["=="]]
    assert loose == []


def test_the_pins_are_within_the_ranges() -> None:
    for name, requirement in requirements().items():
        (pin,) = pins()[name].specifier
        assert requirement.specifier.contains(pin.version), f"{requirement} against the pin {pin}"


def test_every_make_target_of_the_readme_exists() -> None:
    made = set(re.findall(r"\bmake ([a-z]+)\b", (PROJECT / "README.md").read_text()))
    assert {"setup", "run", "test"} <= made
    for target in sorted(made):
        dry = subprocess.run(["make", "-n", target], cwd=PROJECT, capture_output=True, text=True)
        assert dry.returncode == 0, dry.stderr


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", METADATA["version"]] or headings[0] == "Unreleased"
