"""From what the user typed (WHAT) to one side of a comparison, and whether it does anything on a backend.

Reads profile and environment files, and starts nothing. What would be timed without having any effect is
refused with the reason: an interval around 0 % must never mean that nothing was compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoskit import guards
from chaoskit.checking import Level, check, read_target, subject_of
from chaoskit.cost import env_file
from chaoskit.cost.named_settings import BLOCKING_WAIT, SERIALISED_WAITS, SETTINGS, WrongArgument
from chaoskit.cost.names import is_own, nobody_reads
from chaoskit.cost.values import Case, Treatment
from chaoskit.errors import InvalidInput, Problem, usage
from chaoskit.model import Backend, Guard, Profile
from chaoskit.profiles.variables import lookup
from chaoskit.redacting import Redactor
from chaoskit.scenario import load_profile, profile_names
from chaoskit.scenario.values import did_you_mean

GUARD: Final = "guard:"
_SETTINGS_OF: Final = "strict"
"""The profile whose settings a single guard has."""

LoadProfile = Callable[[str | Path], Profile]


def treatment(text: str, load: LoadProfile = load_profile) -> Treatment:
    """Return what ``text`` means. Raises InvalidInput, with every problem of a file."""
    head, colon, argument = text.partition(":")
    if text.startswith(GUARD):
        return _of_guard(text.removeprefix(GUARD), load)
    if head in SETTINGS and "=" not in head:
        return _named(text, head, argument, colon, load)
    if _is_env_file(text):
        return _of_env_file(text)
    if "=" in text:
        return _of_variable(text)
    if text in profile_names() or _is_profile_file(text):
        profile = load(text)
        return Treatment(text, f"the profile {profile.name}", profile)
    known = (*profile_names(), *SETTINGS, *(f"{GUARD}{name}" for name in guards.REGISTRY.names()))
    hint = did_you_mean(text, known)
    if not hint.startswith("did you mean"):
        hint = "chaoskit cost --list names what there is; a file is given with its path, as ./mine.yaml"
    raise usage(f"{text!r} is neither a profile, a guard, a variable nor a setting", hint)


def _is_profile_file(text: str) -> bool:
    return "/" in text or text.endswith((".yaml", ".yml"))


def _is_env_file(text: str) -> bool:
    return Path(text).name.endswith(".env") and "=" not in Path(text).name


def _named(text: str, name: str, argument: str, colon: str, load: LoadProfile) -> Treatment:
    setting = SETTINGS[name]
    try:
        if colon and not argument:
            raise WrongArgument("nothing stands behind the colon")
        made = setting.make(argument, lambda guard: _guard(guard, load))
    except WrongArgument as wrong:
        raise usage(f"{text!r}: {wrong}", f"write {setting.form}") from None
    profile = dataclasses.replace(made.profile, name=text, summary=setting.about)
    return dataclasses.replace(made, name=text, profile=profile, backends=setting.backends)


def _of_guard(name: str, load: LoadProfile) -> Treatment:
    if guards.REGISTRY.get(name) is None:
        hint = did_you_mean(name, guards.REGISTRY.names())
        raise usage(f"{GUARD}{name}: there is no such guard", hint)
    text = f"{GUARD}{name}"
    return Treatment(text, f"the guard {name}", Profile(text, guards=(_guard(name, load),)))


def _guard(name: str, load: LoadProfile) -> Guard:
    """The guard as it is set in the profile strict; its defaults where it is not in there."""
    found = load(_SETTINGS_OF).guard(name)
    cls = guards.REGISTRY.get(name)
    assert cls is not None
    return cls() if found is None else found


def _of_variable(text: str) -> Treatment:
    try:
        name, value = env_file.variable(text)
    except env_file.Unusable as wrong:
        raise usage(f"{text.partition('=')[0][:200]!r}: {wrong}", wrong.hint) from None
    shown = f"{name}={Redactor().variable(name, value)}"
    return Treatment(shown, shown, Profile(shown, env=((name, value),)))


def _of_env_file(text: str) -> Treatment:
    env = env_file.read(text)
    name = Path(text).name
    return Treatment(text, f"the environment of {name}", Profile(name, env=env, file=text))


def is_whole(treatment: Treatment) -> bool:
    """Return whether it is a whole profile or environment, rather than a single setting."""
    return bool(treatment.profile.file) or len(treatment.profile.guards) + len(treatment.profile.env) > 1


def is_blocking_wait(treatment: Treatment) -> bool:
    """Return whether it is blocking wait and nothing else, whatever way it was typed."""
    return dict(treatment.profile.env).get("TORCH_NCCL_BLOCKING_WAIT") == "1" and not is_whole(treatment)


# ---------------------------------------------------------------- what it does on a backend


@dataclass(frozen=True, slots=True)
class Effect:
    """What of a treatment is part of the measured time on a backend, and what is not, with the reason."""

    counted: tuple[str, ...]
    not_counted: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.counted and bool(self.not_counted)


def effect(treatment: Treatment, backend: Backend) -> Effect:
    """Return what of ``treatment`` does something in a rank on ``backend``."""
    counted: list[str] = [treatment.toggle] if treatment.toggle else []
    not_counted: list[str] = []
    for guard in treatment.profile.guards:
        if backend not in guard.backends:
            not_counted.append(f"the guard {guard.name} acts on {', '.join(guard.backends)} only")
        elif guard.lives_in not in ("rank", "sidecar"):
            not_counted.append(f"the guard {guard.name} acts in the {guard.lives_in}, not in the ranks")
        else:
            counted.append(guard.name)
    for name, _ in treatment.profile.env:
        known = lookup(name)
        if nobody := nobody_reads(name):
            not_counted.append(f"{name}: {nobody}")
        elif backend in known.backends:
            counted.append(name)
        else:
            not_counted.append(f"{name} is read by {known.reader} only, and this is {backend}")
    return Effect(tuple(counted), tuple(not_counted))


def unfit(treatment: Treatment, backend: Backend) -> Problem | None:
    """Return why ``treatment`` cannot be compared on ``backend``; None where it can."""
    blocking = dict(treatment.profile.env).get("TORCH_NCCL_BLOCKING_WAIT") is not None
    if backend == "gloo" and not is_whole(treatment) and (blocking or treatment.name == BLOCKING_WAIT):
        return Problem(
            f"{treatment.name}: there is no blocking wait on gloo: only ProcessGroupNCCL reads its variable",
            hint=f"{SERIALISED_WAITS} times waits after every collective, which is what there is on gloo;"
            " with GPUs: --backend nccl",
        )
    if not treatment.profile.file and not treatment.profile.guards:
        for name, _ in treatment.profile.env:
            if nobody := nobody_reads(name):
                return Problem(f"{name}: {nobody}", hint="what nobody reads costs nothing: leave it out")
    if backend not in treatment.backends:
        only = " and ".join(treatment.backends)
        return Problem(
            f"{treatment.name}: is for {only}, not for {backend}",
            hint=f"leave it out, or ask for --backend {treatment.backends[0]}",
        )
    found = effect(treatment, backend)
    if found.is_empty:
        return Problem(
            f"{treatment.name}: has no effect in the ranks on {backend}, so there is nothing to time:"
            f" {'; '.join(found.not_counted)}",
            hint="leave it out; another backend is never taken instead",
        )
    return None


def not_counted(treatment: Treatment, backend: Backend) -> str:
    """Return the note on what of ``treatment`` is not in the figures; '' where all of it is."""
    found = effect(treatment, backend).not_counted
    return f"{treatment.name}: not in the figures: {'; '.join(found)}" if found else ""


def all_of(
    texts: Sequence[str], load: LoadProfile = load_profile
) -> tuple[tuple[Treatment, ...], tuple[Problem, ...]]:
    """Return what each of ``texts`` means, and everything that is wrong with the others."""
    made: dict[str, Treatment] = {}
    problems: list[Problem] = []
    for text in texts:
        try:
            one = treatment(text, load)
        except InvalidInput as error:
            problems += error.problems
            continue
        if one.name in made:
            problems.append(Problem(f"{one.name} is given twice", hint="give each once"))
        made[one.name] = one
    return tuple(made.values()), tuple(problems)


def doubts(treatment: Treatment, backend: Backend) -> tuple[str, ...]:
    """Return what `profiles check` has against single variables: one that is read as something else, or does
    harm. Of guards, profiles and files nothing is said: that command tells it, with lines."""
    if treatment.profile.file or treatment.profile.guards or treatment.name in profile_names():
        return ()
    try:
        found = check(subject_of(treatment.profile), read_target(backend=backend, look_inside=False))
    except InvalidInput:  # a torch that is older than the tables
        return ()
    told = [f for f in found if f.level is not Level.NOTE]
    return tuple(f"{f.subject}: {f.message}" + (f"; {f.hint}" if f.hint else "") for f in told)


def unfit_for(treatment: Treatment, case: Case) -> str:
    """Return why ``case`` would show nothing of ``treatment``; '' where it can."""
    if treatment.toggle and case.kind == "program":
        return "changes what the timed program itself does, and your program is left as it is"
    env = [name for name, _ in treatment.profile.env]
    if case.kind != "program" and env and not treatment.profile.guards and all(map(is_own, env)):
        return f"nothing but a script of yours can read {' and '.join(env[:3])}, and none is timed"
    names = [guard.name for guard in treatment.profile.guards]
    if treatment.profile.env or not names:
        return ""
    idle = [name for name in names if case.kind not in _ACTS_ON.get(name, (case.kind,))]
    if idle != names:
        return ""
    return f"{' and '.join(names)} never acts {_NEVER[case.kind]}"


_ACTS_ON: Final[dict[str, tuple[str, ...]]] = {
    "consistency": ("ddp", "program"),
    "step_heartbeat": ("ddp", "program"),
    "checkpoint": ("program",),
    "loader_check": ("program",),
}
"""The kinds of cases in which a guard has anything to do, where these are not all."""
_NEVER: Final = {
    "collective": "in a bare collective, which has no steps",
    "ddp": "in the DDP model, which saves nothing and loads no data",
    "program": "",
}
