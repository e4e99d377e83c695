"""From the options of ``chaoskit cost``, as typed, to what is to be measured, or to all that is wrong."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.cli.cost_files import CostFiles, without_files
from chaoskit.cli.option_values import Found, Library, as_typed, did_you_mean
from chaoskit.cli.program import ProgramOptions, read_program
from chaoskit.cli.reporting import Format, read_format
from chaoskit.cost import cases, session, treatments
from chaoskit.cost.hiding import Hiding
from chaoskit.cost.named_settings import FLIGHT_RECORDER
from chaoskit.cost.request import CostRequest, Model
from chaoskit.cost.session import Asked
from chaoskit.cost.values import Case, Comparison, Treatment
from chaoskit.errors import usage
from chaoskit.model import Backend, Workload
from chaoskit.scenario import profile_names

DEFAULT = ("recommended", "strict")
PLAIN = "torch-defaults"
RANKS, RANKS_MAX = 2, 256
SHARE_MAX = 1.0
MODELS_MAX = 32
_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)\s*%")
_EXTRA = "pip install 'chaoskit[cost]'"


@dataclass(frozen=True, slots=True)
class CostOptions:
    """What the user typed. None: not given."""

    words: tuple[str, ...] = ()
    module: str | None = None
    behind: tuple[str, ...] | None = None
    against: str | None = None
    op: str | None = None
    size: str | None = None
    ddp: bool = False
    bucket: str | None = None
    layers: str | None = None
    compute: str | None = None
    backend: str = "gloo"
    ranks: str | None = None
    budget: str | None = None
    width: str | None = None
    seed: str | None = None
    limit: str | None = None
    detect: bool | None = None
    runs_dir: str = "runs"
    form: str = "text"
    json: str | None = None
    markdown: str | None = None
    html: str | None = None
    plots: str | None = None


@dataclass(frozen=True, slots=True)
class AskedCost:
    """What is to be done, and how to report."""

    asked: Asked
    form: Format
    files: CostFiles
    limit: float | None = None


def read(options: CostOptions, library: Library) -> AskedCost:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    backend = _backend(options, found)
    ranks = _ranks(options, found)
    program, words = _program(options, found)
    models, chosen = _cases(options, program, found)
    against, compared = _treatments(words, options.against, backend, found)
    budget_s = found.duration("--budget", options.budget)
    width, limit = (_share(n, t, found) for n, t in (("--width", options.width), ("--limit", options.limit)))
    if width == 0.0:
        found.add("--width 0 %: no interval is that narrow", "take 1%, or leave it out")
    seed = found.seed(options.seed)
    runs_dir = found.runs_dir(options.runs_dir)
    form, wrong = read_format(options.form)
    files = CostFiles.read(options.json, options.markdown, options.html, options.plots)
    found.problems += [*wrong, *files.problems()]
    _libraries(files, found)
    sorted_out = _sorted_out(against, compared, chosen, models[0], backend, ranks, found)
    found.raise_any()
    assert against is not None
    base = CostRequest(
        compared, against, (), backend, ranks, seed, program=program, runs_dir=runs_dir,
    )  # fmt: skip
    if budget_s is not None:
        base = dataclasses.replace(base, budget_s=budget_s)
    if width is not None:
        base = dataclasses.replace(base, width=width)
    hiding = Hiding([base], os.environ)
    typed = as_typed()
    shown = hiding.text(hiding.redactor.command(typed))
    told = shown == typed and sys.argv[1:2] == ["cost"]
    words = ("chaoskit", *without_files(sys.argv[1:])) if told else ()
    base = dataclasses.replace(base, command=shown, words=words, folder=_folder(hiding))
    requests = _requests(base, models, chosen, sorted_out)
    if not requests:
        raise usage("nothing of this can be timed here: " + sorted_out[0].problem)
    detected = _detected(against, compared, options.detect)
    notes = _notes(against, compared, backend, ranks)
    return AskedCost(Asked(requests, sorted_out, detected, notes), form, files, limit)


def _folder(hiding: Hiding) -> str:
    """The folder of this process; '' where there is none any more, or a secret stands in its name."""
    try:
        folder = os.getcwd()
    except OSError:
        return ""
    return folder if hiding.text(folder) == folder else ""


# ---------------------------------------------------------------- single options


def _backend(options: CostOptions, found: Found) -> Backend:
    from chaoskit import capabilities

    backend = found.backend(options.backend) or "gloo"
    if backend == "nccl" and not (capability := capabilities.find("nccl")).available:
        remedy = f"to have it: {capability.remedy}; " if capability.remedy else ""
        found.add(
            f"--backend nccl: cannot be had here: {capability.detail}",
            f"{remedy}no other backend is taken instead: --backend gloo measures gloo",
        )
    return backend


def _ranks(options: CostOptions, found: Found) -> int:
    if options.ranks is not None and options.ranks.strip() == "1":
        found.add("--ranks 1: one rank alone has nobody to talk to, nothing of this costs it anything",
                  "take 2 or more")  # fmt: skip
        return 2
    return found.whole("--ranks", options.ranks, 2, RANKS_MAX) or RANKS


def _share(option: str, text: str | None, found: Found) -> float | None:
    if text is None:
        return None
    match = _PERCENT.fullmatch(text.strip())
    share = float(match[1]) / 100 if match else -1.0
    if not 0 <= share <= SHARE_MAX:
        found.add(f"{option} {text!r}: expected a percentage from 0% to 100%", f"write {option} 2%")
        return None
    return share


def _libraries(files: CostFiles, found: Found) -> None:
    drawn = ["matplotlib"] if files.html is not None or files.plots is not None else []
    missing = [name for name in ("scipy", *drawn) if importlib.util.find_spec(name) is None]
    if missing:
        needs = "intervals and plots" if drawn else "intervals"
        found.add(f"{' and '.join(missing)} not installed: the {needs} are made with it", _EXTRA)


# ---------------------------------------------------------------- what is timed


@dataclass(frozen=True, slots=True)
class Chosen:
    """The cases beside the models. ``swept``: of the collectives not each has to be possible."""

    cases: tuple[Case, ...] = ()
    swept: bool = False
    with_model: bool = False


def _program(options: CostOptions, found: Found) -> tuple[Workload | None, tuple[str, ...]]:
    """The user's program, and the words that are left for what is compared."""
    scripts = tuple(word for word in options.words if word.endswith(".py"))
    words = tuple(word for word in options.words if not word.endswith(".py"))
    if len(scripts) > 1:
        found.add(f"{len(scripts)} scripts: {', '.join(scripts)}", "one at a time; its ARGS go behind --")
        return None, words
    script = scripts[0] if scripts else None
    if script is None and options.module is None:
        if options.behind:
            found.add("what stands behind -- belongs to a program, and none is given", "as train.py -- ARGS")
        return None, words
    program, _ = read_program(ProgramOptions(script, options.module, None, options.behind), found)
    return program, words


def _cases(options: CostOptions, program: Workload | None, found: Found) -> tuple[tuple[Model, ...], Chosen]:
    """The models (at least one, used where a case is one), and the cases."""
    named = options.ddp or any(v is not None for v in (options.bucket, options.layers, options.compute))
    bare = options.op is not None or options.size is not None
    collectives, swept = _collectives(options, found) if bare else ((), False)
    own = (cases.program(program),) if program is not None else ()
    is_program = program is not None or options.module is not None
    with_model = named or not (bare or is_program)
    return _models(options, found), Chosen((*own, *collectives), swept, with_model)


def _collectives(options: CostOptions, found: Found) -> tuple[tuple[Case, ...], bool]:
    asked = (options.op or "all_reduce").split(",")
    ops = cases.OPS if asked == ["all"] else tuple(dict.fromkeys(op.strip() for op in asked))
    for op in ops:
        if op not in cases.OPS:
            known = f"there are {', '.join(cases.OPS)}, and all"
            found.add(f"--op {op!r}: no such collective", did_you_mean(op, cases.OPS) or known)
    try:
        sizes = cases.sizes(options.size or cases.SWEEP)
    except cases.BadSize as bad:
        found.add(f"--size {bad}", bad.hint)
        return (), False
    return cases.collectives([op for op in ops if op in cases.OPS], sizes.nbytes), sizes.swept


def _models(options: CostOptions, found: Found) -> tuple[Model, ...]:
    usual = Model()
    layers = found.whole("--layers", options.layers, 1, 1000) or usual.layers
    try:
        buckets = cases.sizes(options.bucket).nbytes if options.bucket else (usual.bucket_bytes,)
    except cases.BadSize as bad:
        found.add(f"--bucket {bad}", bad.hint)
        buckets = (usual.bucket_bytes,)
    ratios = _ratios(options.compute, found) or (usual.compute_ratio,)
    models = tuple(Model(layers, bucket, ratio) for bucket in buckets for ratio in ratios)
    if len(models) > MODELS_MAX:
        found.add(f"{len(models)} models, each with its own time", f"take {MODELS_MAX} or fewer")
    return models


def _ratios(text: str | None, found: Found) -> tuple[float, ...]:
    ratios = []
    for part in text.split(",") if text is not None else ():
        if re.fullmatch(r"\d{1,3}(\.\d{1,3})?", part.strip()) is None or float(part) > 100:
            found.add(f"--compute {part!r}: expected a number from 0 to 100", "as --compute 0.5,1,4")
        else:
            ratios.append(float(part))
    return tuple(dict.fromkeys(ratios))


# ---------------------------------------------------------------- what is compared


def _treatments(
    words: tuple[str, ...], against: str | None, backend: Backend, found: Found
) -> tuple[Treatment | None, tuple[Treatment, ...]]:
    load = found.library.load_profile
    compared, wrong = treatments.all_of(words or DEFAULT, lambda path: load(str(path)))
    found.problems += wrong
    alone = bool(compared) and all(one.name.startswith(FLIGHT_RECORDER) for one in compared)
    plain = against or (f"{FLIGHT_RECORDER}:0" if alone else PLAIN)
    other = found.attempt(lambda: treatments.treatment(plain, lambda path: load(str(path))))
    for one in (*compared, *([other] if other is not None else [])):
        if (problem := treatments.unfit(one, backend)) is not None:
            found.problems.append(problem)
    for one in compared:
        if (
            other is not None
            and one.toggle == other.toggle == "monitored-barrier"
            and one.every != other.every
        ):
            found.add(f"{one.name} against {other.name}: the two cannot be timed side by side",
                      f"compare each with {PLAIN}")  # fmt: skip
    return other, compared


def _sorted_out(
    against: Treatment | None,
    compared: Sequence[Treatment],
    chosen: Chosen,
    model: Model,
    backend: Backend,
    ranks: int,
    found: Found,
) -> tuple[Comparison, ...]:
    """The rows that cannot be timed. Only of a sweep: what was asked for by name is refused."""
    free = cases.free_memory_bytes()
    rows = []
    timed = (*chosen.cases, *([cases.ddp(model)] if chosen.with_model else []))
    for case in timed:
        why = cases.unfit(case, model, backend, ranks, free)
        if why and not (chosen.swept and case.kind == "collective"):
            found.add(f"{case.name}: {why}", "take a smaller size or fewer ranks")
        for one in compared:
            if (other := treatments.unfit_for(one, case)) or (
                against is not None and (other := treatments.unfit_for(against, case))
            ):
                found.add(f"{one.name}: {other}", "time it on a case that has: --ddp, or a script of yours")
            elif why and against is not None:
                rows.append(session.refused(one, against, case, why))
    found.problems = list(dict.fromkeys(found.problems))
    return tuple(rows)


def _requests(
    base: CostRequest, models: Sequence[Model], chosen: Chosen, rows: Sequence[Comparison]
) -> tuple[CostRequest, ...]:
    out = {row.case for row in rows}
    plain = tuple(case for case in chosen.cases if case not in out)
    found = [dataclasses.replace(base, cases=plain)] if plain else []
    if chosen.with_model:
        found += [dataclasses.replace(base, cases=(cases.ddp(model),), model=model) for model in models]
    return tuple(found)


def _detected(against: Treatment, compared: Sequence[Treatment], asked: bool | None) -> tuple[Treatment, ...]:
    """What is compared with stands first. Unless asked for, whole profiles and blocking wait only."""
    if asked is False:
        return ()
    chosen = [
        one for one in compared if asked or treatments.is_whole(one) or treatments.is_blocking_wait(one)
    ]
    chosen = [one for one in chosen if one.name != against.name]
    return (against, *chosen) if chosen else ()


def _notes(
    against: Treatment, compared: Sequence[Treatment], backend: Backend, ranks: int
) -> tuple[str, ...]:
    found = [note for one in (against, *compared) if (note := treatments.not_counted(one, backend))]
    for one in (against, *compared):
        found += [*treatments.doubts(one, backend), *_checked(one, backend)]
    cores = len(os.sched_getaffinity(0))
    if ranks > cores:
        found.append(
            f"{ranks} ranks share {cores} cores, so they also wait for a core: what a thread of a guard costs"
            " is seen larger than where each rank has cores to spare"
        )
    if any(one.name == against.name for one in compared):
        found.append(f"{against.name} is compared with itself: what is seen of it is noise")
    if any(one.name.startswith(FLIGHT_RECORDER) for one in compared) and against.name == PLAIN:
        found.append(
            "newer torch keeps a flight recorder by itself; what it costs is told by"
            f" --against {FLIGHT_RECORDER}:0"
        )
    return tuple(dict.fromkeys(found))


def _checked(one: Treatment, backend: Backend) -> tuple[str, ...]:
    """The line on a file of the user's, with the command that tells the findings. Built-in profiles are as
    meant."""
    from chaoskit.checking import read_subject
    from chaoskit.cli.profiles_check import counted

    if not one.profile.file or one.name in profile_names():
        return ()
    subject, read = read_subject(one.name)
    line = counted(subject, read, one.says.removeprefix("the "), one.name, backend)
    return (line,) if line else ()
