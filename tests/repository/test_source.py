"""What holds for every source file: its size, its words, its documentation."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path
from typing import Any

from chaoskit import faults, guards
from chaoskit.registry import Registry

PROJECT = Path(__file__).parents[2]
LINES_MAX = 400
ONLY_DECLARATIONS = {"model.py"}  # the shared vocabulary may be longer than what has logic in it
VAGUE_NAMES = {"base", "common", "core", "helpers", "helper", "manager", "misc", "util", "utils"}
TEXT = {".cfg", ".in", ".jsonl", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
# A path of the machine that something was written on means nothing anywhere else.
PRIVATE_PATH = re.compile(r"(?<![\w.~}\])-])/(?:home|mnt|root|Users|work|tmp/v\d)/[\w.]")


def committed() -> list[Path]:
    """All files that are, or would be, in the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
    )
    paths = (PROJECT / name for name in listing.stdout.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


def package_modules() -> list[Path]:
    return sorted((PROJECT / "chaoskit").rglob("*.py"))


def test_no_module_is_long() -> None:
    modules = (path for path in package_modules() if path.name not in ONLY_DECLARATIONS)
    lengths = {path: len(path.read_text().splitlines()) for path in modules}
    long = {str(p.relative_to(PROJECT)): n for p, n in lengths.items() if n > LINES_MAX}
    assert not long, f"split by what each part is for (at most {LINES_MAX} lines): {long}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [p for p in package_modules() if p.stem.strip("_") in VAGUE_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = []
    for path in package_modules():
        text = path.read_text().lstrip()
        if text and not text.startswith(('"""', 'r"""')):
            silent.append(str(path.relative_to(PROJECT)))
    assert silent == []


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = []
    for path in committed():
        if path.suffix in TEXT and path != Path(__file__):
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                if PRIVATE_PATH.search(line):
                    found.append(f"{path.relative_to(PROJECT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_every_fault_is_documented_with_an_example() -> None:
    """The docstring is the documentation: what happens, and the YAML to copy, which names the fault."""
    undocumented = []
    for name, doc in documented(faults.REGISTRY).items():
        if len(doc.splitlines()) < 3 or not re.search(rf"^ +- {re.escape(name)}:", doc, re.MULTILINE):
            undocumented.append(name)
    assert undocumented == []


def test_every_guard_is_documented() -> None:
    """The page of guards is made of the docstrings and adds each one's settings."""
    docs = documented(guards.REGISTRY)
    assert [name for name, doc in docs.items() if len(doc.splitlines()) < 3] == []


def documented(family: Registry[Any]) -> dict[str, str]:
    return {name: inspect.getdoc(family.get(name)) or "" for name in family.names()}
