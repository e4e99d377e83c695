"""What holds for the library as a whole: every file loads, and the folders say what is in them."""

from __future__ import annotations

from pathlib import Path

from chaoskit.scenario import load, load_profile
from chaoskit.scenario.listing import library_files

PROJECT = Path(__file__).parents[2]
LIBRARY = PROJECT / "scenarios"


def test_every_file_loads_and_is_called_after_its_scenario() -> None:
    files = library_files()
    assert len(files) >= 24
    scenarios = load(files)
    assert sorted(s.name for s in scenarios) == sorted(f.stem for f in files)


def test_every_scenario_is_in_the_folder_of_its_family_and_has_two_arms() -> None:
    for scenario in load(library_files()):
        assert Path(scenario.file).parent.name == scenario.family, scenario.name
        assert scenario.arm("control") is not None, scenario.name
        assert scenario.healthy or scenario.arm("hardened") is not None, scenario.name
        assert scenario.summary, scenario.name


def test_profiles_that_scenarios_name_are_beside_them_and_used() -> None:
    profiles = {p.resolve() for p in LIBRARY.rglob("profiles/*.yaml")}
    assert set(LIBRARY.rglob("*.yaml")) - profiles == set(library_files())
    for profile in profiles:
        assert load_profile(profile).name == profile.stem
    arms = [arm for scenario in load(library_files()) for arm in scenario.arms]
    named = {Path(arm.profile).resolve() for arm in arms if arm.profile.endswith(".yaml")}
    assert named == profiles


def test_the_library_has_nothing_but_scenarios() -> None:
    strange = [p for p in LIBRARY.rglob("*") if p.is_file() and p.suffix not in {".yaml", ".md", ".json"}]
    assert strange == []
