"""Files and names → scenarios."""

from __future__ import annotations

import shutil
from pathlib import Path

import library
import pytest

from chaoskit.errors import InvalidInput
from chaoskit.scenario import load, load_profile, profile_names, select
from chaoskit.scenario.listing import FIRST, glance, library_files, library_root, listing
from chaoskit.scenario.loading import _scenario
from chaoskit.scenario.source import read_document


def problems(*wanted: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        select(wanted)
    return [str(p) for p in caught.value.problems]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    shutil.copy(next(f for f in library_files() if f.stem == FIRST), tmp_path / "own.yaml")
    return tmp_path / "own.yaml"


def test_the_listing_says_what_the_files_say() -> None:
    """A glance at the lines and a full parse agree, for every file, in the same order."""
    by_file = {s.file: s for s in library.scenarios()}
    assert [entry.name for entry in listing()] == [s.name for s in library.scenarios()]
    for file in library_files():
        entry, scenario = glance(file), by_file[str(file)]
        assert entry is not None, f"{file}: `chaoskit list` has to parse it, which is slow"
        assert (entry.name, entry.family, entry.tags, entry.summary, entry.requires, entry.backends) == (
            scenario.name,
            scenario.family,
            scenario.tags,
            scenario.summary,
            scenario.requires,
            scenario.backends,
        )


@pytest.mark.parametrize(
    "line",
    [
        "summary: >\n  folded\n",
        "summary:\n  below\n",
        "summary: 'single'\n",
        "summary: a: b\n",
        "summary: 5\n",
        "summary: true\n",
        "summary: [a]\n",
        "summary: &x a\n",
        "tags: [a, 'b']\n",
        "tags:\n  - a\n",
        "tags: [1]\n",
        "name: x\nname: y\n",
        "summary: a\n  goes on\n",
        'summary: "a\\tb"\n',
        "? x\n",
        "--- \n",
        "requires: cgroup\n",
        "tags: [true]\n",
        "{name: x}\n",
    ],
)
def test_a_glance_gives_up_where_it_cannot_know(line: str, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    base = {"name": "name: x\n", "summary: a": "summary: fine\n"}
    text = "".join(v for k, v in base.items() if not line.startswith(k.split(":")[0])) + line
    file.write_text(text)
    assert glance(file) is None


def test_a_glance_reads_comments_quotes_and_defaults(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        '# c\nname: x  # the name\nsummary: "It\'s a: b"\ntags: [a, b]\nfaults:\n- kill: {rank: 1}\n'
    )
    entry = glance(file)
    assert entry is not None
    assert (entry.name, entry.summary, entry.tags, entry.family) == ("x", "It's a: b", ("a", "b"), "custom")
    assert entry.backends == ("gloo", "nccl")


def test_the_first_scenario_is_the_example() -> None:
    assert listing()[0].name == FIRST
    assert library_root().is_dir()


def test_select_by_name_tag_and_all() -> None:
    assert [s.name for s in select(["rank-stopped", FIRST, "rank-stopped"])] == ["rank-stopped", FIRST]
    assert [s.name for s in select(["tag:quick"])] == [e.name for e in listing() if "quick" in e.tags]
    assert len(select(["all"])) == len(select([])) == len(library_files())


def test_select_by_path(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own.parent)
    assert select(["own.yaml"])[0].file == "own.yaml"
    assert [s.file for s in select(["./own.yaml", str(own)])] == ["own.yaml"]


def test_names_that_mean_nothing_are_told_with_the_closest_all_at_once() -> None:
    said = problems("rank-stoped", "tag:quik", "zzzz", "./none.yaml")
    assert "did you mean rank-stopped?" in said[0]
    assert "did you mean quick?" in said[1]
    assert "chaoskit list" in said[2]
    assert "none.yaml: no such file" in said[3]


def test_a_name_that_is_taken(own: Path) -> None:
    (said,) = problems(FIRST, str(own))
    assert said.startswith(f"{own}:1: the name {FIRST} is already taken by ")


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nfoo: 1\n")
    (tmp_path / "b.yaml").write_text("- 1\n")
    with pytest.raises(InvalidInput) as caught:
        load([tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "c.yaml", tmp_path])
    assert {Path(p.file).name for p in caught.value.problems} == {"a.yaml", "b.yaml", "c.yaml", tmp_path.name}


def test_built_in_profiles_are_read_alike_by_the_guards_own_reader() -> None:
    from chaoskit.guards import profile as deployed

    assert set(profile_names()) == set(deployed.builtin_names())
    assert profile_names()[0] == "torch-defaults"
    for name in profile_names():
        assert load_profile(name) == deployed.load_profile(name)


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("name: x\nguards: {timeout: {}}\n", 2, "there is no guard `timeout`", "did you mean timeouts?"),
        (
            "name: x\nguards:\n  timeouts:\n    collectve: 5m\n",
            4,
            "unknown key `collectve`",
            "did you mean collective?",
        ),
        ("name: x\nguards:\n  timeouts: {init: soon}\n", 3, "init must be a duration", "150ms"),
        ("name: x\nguards: [timeouts]\n", 2, "guards must be a mapping", ""),
        ("name: x\nguards:\n  group_kill: {signal: SIGNONE}\n", 3, "is no signal", ""),
        ("name: x\nenv: {A: true}\n", 2, "A must be a text, is true", "quotes"),
        ("name: x\nenv: {A=B: c}\n", 2, "no name of an environment variable", ""),
        ("nam: x\n", 1, "unknown key `nam`", "did you mean name?"),
    ],
)
def test_a_profile_with_a_mistake(text: str, line: int, message: str, hint: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_profile(file)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.file, problem.line) == (str(file), line)
    assert hint in problem.hint


def test_an_unknown_profile() -> None:
    with pytest.raises(InvalidInput, match="did you mean strict"):
        load_profile("stric")


def test_every_fault_s_example_is_a_scenario(tmp_path: Path) -> None:
    """The docstring is the documentation; what it shows to copy has to work."""
    import inspect
    import textwrap

    from chaoskit import faults

    for name in faults.REGISTRY.names():
        cls = faults.REGISTRY.get(name)
        doc = inspect.getdoc(cls) or ""
        hosts = 4 if getattr(cls, "needs_hosts", False) else 1
        example = textwrap.dedent(doc.split("Example:\n", 1)[1])
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            f"name: {name}\nsummary: x\nworkload: all-reduce-loop\n"
            f"topology: {{ranks: 4, hosts: {hosts}}}\n{example}\n"
            "arms:\n  control: {profile: torch-defaults, expect: {outcome: failed}}\n"
            "  hardened: {profile: strict, expect: {outcome: failed}}\n"
        )
        scenario = _scenario(read_document(file))
        assert scenario.injections[0].fault.name == name
