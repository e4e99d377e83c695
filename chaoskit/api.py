"""``chaoskit.run``: the Python way in. Everything it does is also what the command line does."""

from __future__ import annotations

from pathlib import Path

from chaoskit import engine
from chaoskit.model import Profile, Scenario, Verdict
from chaoskit.request import Observer, RunRequest
from chaoskit.scenario import load_profile, select


def run(
    scenario: Scenario | str | Path,
    *,
    profile: Profile | str | Path | None = None,
    repeat: int = 1,
    seed: int | None = None,
    ranks: int | None = None,
    jobs: int | None = None,
    timeout_s: float | None = None,
    time_scale: float | None = None,
    runs_dir: str | Path = "runs",
    observer: Observer | None = None,
) -> tuple[Verdict, ...]:
    """Run a scenario (an object, a library name, or a file) and return the verdicts of its arms.

    ``profile`` (an object, a built-in name, or a file) replaces the hardened arm's profile; the
    control arm still runs. Must be called from the main thread. Raises InvalidInput for a bad
    file or argument, with all problems at once.
    """
    scenarios = (scenario,) if isinstance(scenario, Scenario) else tuple(select([str(scenario)]))
    chosen = profile if profile is None or isinstance(profile, Profile) else load_profile(str(profile))
    request = RunRequest(
        scenarios=scenarios,
        profile=chosen,
        repeat=repeat,
        seed=seed,
        ranks=ranks,
        jobs=jobs,
        timeout_s=timeout_s,
        time_scale=time_scale,
        runs_dir=Path(runs_dir),
        command="chaoskit.run",
    )
    return engine.run(request, observer).verdicts
