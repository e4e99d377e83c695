"""The shape of a scenario file and a profile file, as pydantic models. The only place that knows pydantic.

The models of faults and guards are built from the fields and type hints of their dataclasses and are
chosen by their key, so one message says what is wrong with one value. What the values mean together
(a rank that does not exist, a trigger that never fires) is not looked at here.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Annotated, Any, cast, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from chaoskit.errors import BrokenPlugin
from chaoskit.gpu.sharing import WAYS
from chaoskit.model import Fault, Guard, Kind, Outcome, Phase, Result, Span
from chaoskit.network import HOSTS_MAX
from chaoskit.rates import HINT, rate_bps
from chaoskit.scenario import culprits, values
from chaoskit.scenario.values import Wrong, did_you_mean, shown, yaml_key

BACKENDS = ("gloo", "nccl")
UNOBSERVED = "unobserved"
"""The outcome of a control that nobody has run where it can be run: it is looked at, and promises nothing."""


def _reading(kind: values.Kind) -> PlainValidator:
    """A pydantic validator that reads with ``kind`` and keeps its message and hint."""

    def read(value: object) -> object:
        try:
            return kind.read(value)
        except Wrong as wrong:
            raise PydanticCustomError(
                "wrong", "{message}", {"message": wrong.message, "hint": wrong.hint}
            ) from None

    return PlainValidator(read)


def _outcomes(value: object) -> dict[str, str] | str:
    """An outcome, or one for each backend; of a control also that nobody has seen it."""
    one = values.choice(Outcome)
    if value == UNOBSERVED:
        return UNOBSERVED
    if not isinstance(value, dict):
        name: Any = one.read(value)
        return str(name)
    if not value:
        raise Wrong("names no outcome", "write a name, or {gloo: failed, nccl: hung}")
    for backend, outcome in value.items():
        if backend not in BACKENDS:
            raise Wrong(f"has the unknown backend {shown(backend)}", did_you_mean(backend, BACKENDS))
        try:
            one.read(outcome)
        except Wrong as wrong:
            raise Wrong(f"{backend} {wrong.message}", wrong.hint) from None
    return value


def _exits(value: object) -> str | dict[str | int, object]:
    """``zero``, ``nonzero``, or the exit code of single ranks (and of the job, beside them)."""
    hint = "write zero, nonzero, {0: 143} or {job: nonzero, 0: 143}"
    if not isinstance(value, dict):
        if value not in ("zero", "nonzero"):
            raise Wrong(f"must be zero, nonzero or a mapping of ranks to exit codes, is {shown(value)}", hint)
        return str(value)
    for rank, code in value.items():
        if rank == "job":
            if code not in ("zero", "nonzero"):
                raise Wrong(f"job must be zero or nonzero, is {shown(code)}", hint)
        elif not isinstance(rank, int) or not 0 <= rank < values.RANKS_MAX:
            raise Wrong(f"has the key {shown(rank)}, which is no rank", hint)
        elif isinstance(code, bool) or not isinstance(code, int) or not -64 <= code <= 255:
            raise Wrong(f"rank {rank} must have an exit code (negative for a signal), is {shown(code)}", hint)
    return value


_CODES = {
    "type": "object",
    "properties": {"job": {"enum": ["zero", "nonzero"]}},
    "additionalProperties": {"type": "integer"},
}
_EXIT = values.Kind(_exits, {"anyOf": [{"enum": ["zero", "nonzero"]}, _CODES]})
_OUTCOME_NAMES = [o.value for o in Outcome]
_OUTCOME = values.Kind(
    _outcomes,
    {"anyOf": [
        {"enum": [*_OUTCOME_NAMES, UNOBSERVED]},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {b: {"enum": _OUTCOME_NAMES} for b in BACKENDS},
        },
    ]},
)  # fmt: skip
_CULPRIT = values.Kind(culprits.read, culprits.SCHEMA)


def _any_loader(value: object) -> str:
    """``any``: the DataLoaders of a rank have no names."""
    if value != "any":
        raise Wrong(f"must be any, is {shown(value)}", "write {loader: any, nth: 5}")
    return "any"


def _rate(value: object) -> float:
    """What a link carries, in bits per second."""
    if not isinstance(value, str):
        raise Wrong(f"must be a rate, is {shown(value)}", HINT)
    try:
        return rate_bps(value)
    except ValueError as error:
        raise Wrong(str(error), HINT) from None


def _host_names(value: object) -> tuple[str, ...]:
    names = values.list_of(values.TEXT).read(value)
    if not names:
        raise Wrong("names no host", "leave it out where all hosts have it")
    return cast(tuple[str, ...], names)


_HOST_NAMES = values.Kind(
    _host_names, {"type": "array", "items": dict(values.TEXT.schema), "minItems": 1, "uniqueItems": True}
)
_RATE = values.Kind(_rate, {"type": "string", "pattern": r"^\d+(\.\d+)?\s*(bit|kbit|mbit|gbit)$"})
_LOADER = values.Kind(_any_loader, {"const": "any"})
_NTH = values.whole(1, 1_000_000)
_COUNT = values.whole(1, values.RANKS_MAX)
_HOSTS = values.whole(1, HOSTS_MAX)
_PORT_STATE = values.choice(("up", "down"))
_GPU_SHARING = values.choice(WAYS)
_TEXTS, _SLUGS, _CULPRITS = (values.list_of(k) for k in (values.TEXT, values.SLUG, _CULPRIT))
_BACKEND, _BACKENDS = values.choice(BACKENDS), values.list_of(values.choice(BACKENDS))
_KIND, _RESULT, _PHASE = values.choice(Kind), values.choice(Result), values.choice(Phase)
_OUTCOME_NAME = values.choice(Outcome)

Name = Annotated[str, _reading(values.SLUG), WithJsonSchema(dict(values.SLUG.schema))]
Text = Annotated[str, _reading(values.TEXT), WithJsonSchema(dict(values.TEXT.schema))]
AnyText = Annotated[str, _reading(values.ANY_TEXT), WithJsonSchema(dict(values.ANY_TEXT.schema))]
Texts = Annotated[tuple[str, ...], _reading(_TEXTS), WithJsonSchema(dict(_TEXTS.schema))]
Names = Annotated[tuple[str, ...], _reading(_SLUGS), WithJsonSchema(dict(_SLUGS.schema))]
Boolean = Annotated[bool, _reading(values.BOOLEAN), WithJsonSchema(dict(values.BOOLEAN.schema))]
BackendName = Annotated[str, _reading(_BACKEND), WithJsonSchema(dict(_BACKEND.schema))]
BackendNames = Annotated[tuple[str, ...], _reading(_BACKENDS), WithJsonSchema(dict(_BACKENDS.schema))]
Ranks = Annotated[int, _reading(_COUNT), WithJsonSchema(dict(_COUNT.schema))]
Hosts = Annotated[int, _reading(_HOSTS), WithJsonSchema(dict(_HOSTS.schema))]
Rate = Annotated[float, _reading(_RATE), WithJsonSchema(dict(_RATE.schema))]
HostNames = Annotated[tuple[str, ...], _reading(_HOST_NAMES), WithJsonSchema(dict(_HOST_NAMES.schema))]
PortState = Annotated[str, _reading(_PORT_STATE), WithJsonSchema(dict(_PORT_STATE.schema))]
GpuSharingName = Annotated[str, _reading(_GPU_SHARING), WithJsonSchema(dict(_GPU_SHARING.schema))]
Nth = Annotated[int, _reading(_NTH), WithJsonSchema(dict(_NTH.schema))]
LoaderName = Annotated[str, _reading(_LOADER), WithJsonSchema(dict(_LOADER.schema))]
PhaseName = Annotated[str, _reading(_PHASE), WithJsonSchema(dict(_PHASE.schema))]
Duration = Annotated[float, _reading(values.DURATION), WithJsonSchema(dict(values.DURATION.schema))]
Within = Annotated[Span, _reading(values.SPAN), WithJsonSchema(dict(values.SPAN.schema))]
Outcomes = Annotated[Any, _reading(_OUTCOME), WithJsonSchema(dict(_OUTCOME.schema))]
Exits = Annotated[Any, _reading(_EXIT), WithJsonSchema(dict(_EXIT.schema))]
Culprits = Annotated[tuple[str, ...], _reading(_CULPRITS), WithJsonSchema(dict(_CULPRITS.schema))]
KindName = Annotated[str, _reading(_KIND), WithJsonSchema(dict(_KIND.schema))]
ResultName = Annotated[str, _reading(_RESULT), WithJsonSchema(dict(_RESULT.schema))]
OutcomeName = Annotated[str, _reading(_OUTCOME_NAME), WithJsonSchema(dict(_OUTCOME_NAME.schema))]
Environment = Annotated[
    tuple[tuple[str, str], ...], _reading(values.ENVIRONMENT), WithJsonSchema(dict(values.ENVIRONMENT.schema))
]


class FileModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class NicFile(FileModel):
    """A network interface that the virtual hosts have."""

    subnet: AnyText = Field("", description="the network it is in, for example 10.1.0.0/24 or fd00:1::/64")
    rate: Rate | None = Field(None, description="what its link carries, for example 1gbit or 500kbit")
    same_address: AnyText = Field(
        "", description="in no switch, and this address on every host, for example 172.17.0.1/16"
    )
    port: PortState = Field("up", description="up, or down where the port of its switch is")
    on: HostNames = Field((), description="the hosts that have it; all without this")


class TopologyFile(FileModel):
    """How many processes are started, their backend, and the virtual hosts they run on."""

    ranks: Ranks = 4
    backend: BackendName = "gloo"
    hosts: Hosts = Field(default=1, description="virtual hosts, called hostA, hostB, …; the ranks in blocks")
    nics: dict[str, NicFile] = Field(default={}, description="interfaces by name; eth0 without this")
    own_name: AnyText = Field(
        default="", description="what the name of each host resolves to on itself: an interface or an address"
    )
    gpu_sharing: GpuSharingName = Field(
        default="auto", description="how ranks share GPUs where there are fewer GPUs than ranks"
    )


class WhenFile(FileModel):
    """When a fault fires. One of op, step, call, forward, backward, loader, write, after; or the words init
    and launch in its place."""

    op: Text | None = Field(None, description="a collective, for example all_reduce")
    nth: Nth = Field(
        1, description="counts from 1, per rank and name (group and op); with step, within that step"
    )
    group: Text = Field("default", description="the process group, as named by its group_desc")
    phase: PhaseName = Field(
        "before", description="before or after it; during is for an operation between ranks (op) only"
    )
    step: Nth | None = Field(
        None, description="when this optimizer step is done; with op, the step that is meant"
    )
    call: Text | None = Field(None, description="a function by its dotted name, for example torch.save")
    forward: Text | None = Field(
        None, description="the forward of a module by its dotted name in the model, or by its class"
    )
    backward: Text | None = Field(
        None, description="the backward of a module by its dotted name in the model, or by its class"
    )
    loader: LoaderName | None = Field(
        None, description="any: the nth batch that any DataLoader of the rank hands out"
    )
    write: Text | None = Field(
        None,
        description="the first byte of a file whose path matches, for example {scratch}/*.pt; "
        "relative to the current folder or the arm's own",
    )
    after: Duration | None = Field(None, description="this long after the start of the rank's script")


class ExpectFile(FileModel):
    """The contract of an arm. That nothing is left behind is always part of it."""

    outcome: Outcomes
    within: Within | None = Field(None, description="from the injection to the end of the last rank")
    exit: Exits = None
    culprits: Culprits | None = None
    kind: KindName | None = None
    says: AnyText = Field("", description="text that a guard's own message must contain")


class ArmFile(FileModel):
    """One run of the scenario under one profile."""

    profile: Text = Field(description="the name of a built-in profile, or a file beside this one")
    expect: ExpectFile


class KnownFile(FileModel):
    """What another profile does here, as observed."""

    result: ResultName
    outcome: OutcomeName | None = None
    backend: BackendName = "gloo"
    why: AnyText = ""


class ScenarioFile(FileModel):
    """A scenario of chaoskit: a workload, faults, and the contracts of its arms."""

    name: Name
    summary: Text
    workload: Any = Field(
        description="a built-in workload (its name, or {name: {setting: value}}), or a program of yours: "
        "{script: train.py, args: [...]}, {module: pkg.train, args: [...]}, {command: [torchrun, ...]}"
    )
    arms: dict[str, ArmFile]
    family: Name = "custom"
    healthy: Boolean = False
    seen_in: Texts = ()
    tags: Names = ()
    requires: Names = ()
    backends: BackendNames = BACKENDS
    topology: TopologyFile = TopologyFile()
    faults: list[Any] = Field(default_factory=list)
    known: dict[str, Any] = Field(default_factory=dict)


class ProfileFile(FileModel):
    """A profile of chaoskit: guards with their settings, and environment variables."""

    name: Name
    summary: AnyText = ""
    guards: dict[str, Any] = Field(default_factory=dict)
    env: Environment = ()


# ---------------------------------------------------------------- faults and guards

PREFIX = "value_"  # keeps field names clear of BaseModel's own attributes


@functools.cache
def model_of(cls: type[Fault | Guard]) -> type[BaseModel]:
    """Return the model of its settings. Raises BrokenPlugin for a field whose type has no YAML value."""
    fields: dict[str, Any] = {}
    try:
        hints = get_type_hints(cls)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # the registry has checked that
            kind = values.kind_of(hints[field.name], field.name)
            default: Any = field.default if field.default is not dataclasses.MISSING else ...
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            annotation = Annotated[Any, _reading(kind), WithJsonSchema(dict(kind.schema))]
            fields[PREFIX + field.name] = (annotation, Field(default, alias=yaml_key(field.name)))
    except (TypeError, NameError, KeyError) as error:
        raise BrokenPlugin(f"{cls.__module__}.{cls.__qualname__}: {error}") from error
    model: type[BaseModel] = create_model(
        cls.__name__, __base__=FileModel, __doc__=inspect.getdoc(cls), **fields
    )
    return model
