"""Keeps secrets out of everything that chaoskit writes. Pure; standard library only, ranks use it too.

A :class:`Redactor` knows the values of the variables and arguments whose names look secret, and what
well-known tokens look like. It is used where something is written or heard, so that a report made of what was
written needs none. Ranks are given the true values in memory, never by a file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shlex
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, get_origin, get_type_hints

from chaoskit.events import Completed, Entered, Event, Replicated, Stepped
from chaoskit.model import Plan, Profile
from chaoskit.secret_shapes import HIDDEN, LONGEST_SHAPE, SHAPES, URL_LOGIN

SECRET_NAME: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|pwd|api_?key|access_?key|_key$|private|credential|auth|cookie|session"
    r"|jwt|bearer|(?:^|_)pat$"
)
"""Names of variables whose values are never shown."""
_SURE_NAME: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|pwd|api_?key|access_?key|_key$|private_?key|credential|jwt|bearer|(?:^|_)pat$"
)
_INNOCENT_NAME: Final = re.compile(
    r"(?i)tokenizer|^(xdg_.*|desktop_session|gdmsession|session_manager|dbus_session_.*|ssh_auth_sock|"
    r"git_author_.*|term_session_id|(old)?pwd)$|_(file|path|dir|sock|socket|home|url|name|type|host|port)$|^max_|^num_"
)
"""Names that look secret, and whose values stand in other places by right."""
_OPTION: Final = re.compile(
    r"(?:^|[a-z_])(?:token|secret|password|passwd|passphrase|pwd|api_?key|access_?key|private_?key|"
    r"secret_?key|credentials?|bearer|jwt)(?:$|_|\d)"
)
_NO_SECRET_OPTION: Final = re.compile(
    r"(?:^|_)(?:max|min|num|n|count|limit|per|len|length|size|file|path|dir|id|type|name|freq|rate|pad|eos|bos)(?:$|_)"
)
_COMMON: Final = frozenset(
    "true false none null default disabled enabled disable enable password secret changeme unknown required "
    "optional localhost online offline always redacted".split()
)
_SHORTEST: Final = 6
_SHORTEST_UNSURE: Final = 8
_SHORTEST_NUMBER: Final = 8
_SHORTEST_LINE: Final = 16
_FARTHEST: Final = 16 * 1024
_CACHED_TEXTS: Final = 20_000
_CACHED_CHARS: Final = 400

E = TypeVar("E", bound=Event)
T = TypeVar("T")


@dataclass(frozen=True)
class Redactor:
    """Replaces ``values``, and what looks like a well-known token, by :data:`HIDDEN`."""

    values: tuple[str, ...] = ()
    _known: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, *environments: Mapping[str, str], words: Iterable[str] = ()) -> Redactor:
        """Return one that knows the secrets of these environments, and of a command line."""
        secrets = {v for environment in environments for v in _secrets_of(environment)}
        secrets |= set(_secrets_in(list(words)))
        return cls(_ordered(secrets))

    def knowing(self, plans: Iterable[Plan]) -> Redactor:
        """Return one that knows the secrets of these plans too."""
        secrets = set(self.values)
        for plan in plans:
            secrets |= set(_secrets_of_plan(plan))
        return Redactor(_ordered(secrets))

    # ------------------------------------------------------------ texts

    def text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        if len(text) > _CACHED_CHARS:
            return self._text(text)
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _CACHED_TEXTS:
                self._known.clear()
            found = self._known[text] = self._text(text)
        return found

    def _text(self, text: str) -> str:
        for value in self.values:
            if value in text:
                text = text.replace(value, HIDDEN)
        for shape in SHAPES:
            text = shape.hide(text)
        return text

    def data(self, data: bytes) -> bytes:
        """Return ``data`` without secrets; what is no text stays as it is."""
        for value in self._encoded:
            if value in data:
                data = data.replace(value, HIDDEN.encode())
        for shape in SHAPES:
            data = shape.hide_in(data)
        return data

    def around(self, data: bytes | bytearray, at: int) -> tuple[int, int]:
        """Return where the secret begins and ends that ``at`` lies within; (at, at) where it is in none."""
        first = last = at
        for value in self._encoded:
            found = data.find(value, max(0, at - len(value) + 1), at + len(value) - 1)
            if 0 <= found < at < found + len(value):
                first, last = min(first, found), max(last, found + len(value))
        low = max(0, at - LONGEST_SHAPE)
        window = bytes(data[low : at + LONGEST_SHAPE])
        for shape in SHAPES:
            for begin, end in shape.spans(window):
                if low + begin < at < low + end:
                    first, last = min(first, low + begin), max(last, low + end)
        return first, last

    @functools.cached_property
    def _encoded(self) -> tuple[bytes, ...]:
        return tuple(map(_bytes, self.values))

    @functools.cached_property
    def reach(self) -> int:
        """How far a secret may reach: so much beside a place has to be known to say that it is in none."""
        longest = max([LONGEST_SHAPE, *(len(value) for value in self._encoded)])
        return min(longest, _FARTHEST)

    # ------------------------------------------------------------ values

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return a command line without secrets: what stands behind ``--token`` is one, whatever it is."""
        shown: list[str] = []
        follows = False
        for word in words:
            name, equals, _ = word.partition("=")
            if follows and not word.startswith("--"):
                shown.append(HIDDEN)
                follows = False
                continue
            follows = not equals and word.startswith("-") and _names_a_secret(word)
            shown.append(f"{name}={HIDDEN}" if equals and _names_a_secret(name) else self.text(word))
        return tuple(shown)

    def command(self, text: str) -> str:
        """Return a command line in one text without secrets; it can still be split as a shell does."""
        try:
            words = shlex.split(text)
            shown = self.words(words)
        except ValueError:
            return self.text(text)
        return self.text(text) if list(shown) == words else self.text(shlex.join(shown))

    def environment(self, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return variables without secrets."""
        return tuple((name, self.variable(name, value)) for name, value in pairs)

    def variable(self, name: str, value: str) -> str:
        """Return what may be shown of a variable."""
        hide = SECRET_NAME.search(name) and not _INNOCENT_NAME.search(name)
        return HIDDEN if hide else self.text(URL_LOGIN.sub(HIDDEN, value))

    def plan(self, plan: Plan) -> Plan:
        """Return ``plan`` as it may be written: the environment of its ranks, arguments, settings."""
        workload = dataclasses.replace(
            plan.workload,
            args=self.words(plan.workload.args),
            settings=tuple((k, self.text(v) if isinstance(v, str) else v) for k, v in plan.workload.settings),
        )
        return dataclasses.replace(
            plan,
            profile=self.profile(plan.profile),
            workload=workload,
            ranks=tuple(dataclasses.replace(r, env=self.environment(r.env)) for r in plan.ranks),
            injections=tuple(dataclasses.replace(i, fault=self.settings(i.fault)) for i in plan.injections),
            rerun=plan.rerun if self.command(plan.rerun) == plan.rerun else "",  # it would be another arm
            notes=tuple(self.text(note) for note in plan.notes),
        )

    def profile(self, profile: Profile) -> Profile:
        """Return ``profile`` as it may be written."""
        guards = tuple(self.settings(guard) for guard in profile.guards)
        return dataclasses.replace(profile, env=self.environment(profile.env), guards=guards)

    def settings(self, value: T) -> T:
        """Return a guard or a fault without secrets among its settings."""
        changes = {}
        for one in dataclasses.fields(value):  # type: ignore[arg-type] # each is a dataclass
            old = getattr(value, one.name)
            if isinstance(old, str):
                new: object = self.text(old)
            elif _are_variables(old):
                new = self.environment(old)
            else:
                continue
            if new != old:
                changes[one.name] = new
        return dataclasses.replace(value, **changes) if changes else value  # type: ignore[type-var]

    def event(self, event: E) -> E:
        """Return ``event`` without secrets in what people or programs have said."""
        if type(event) in _FREQUENT:
            return event
        changes: dict[str, Any] = {}
        for name in _said(type(event)):  # type: ignore[arg-type] # mypy thinks it unhashable
            old = getattr(event, name)
            new = self.text(old) if isinstance(old, str) else tuple(map(self.text, old))
            if new != old:
                changes[name] = new
        return dataclasses.replace(event, **changes) if changes else event

    def json(self, value: Any) -> Any:
        """Return a JSON value without secrets in its texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(v) for v in value]
        if isinstance(value, dict):
            return {k: self.json(v) for k, v in value.items()}
        return value


_STRUCTURAL: Final = frozenset(
    "op group guard by phase fault category type state token nic host to boot dtype shape launcher torch "
    "blames".split()
)
"""Fields of events that are words of chaoskit's own, or names that others refer to."""
_FREQUENT: Final = frozenset({Entered, Completed, Stepped, Replicated})
"""Events that come by the million, and in which nobody says anything."""


@functools.cache
def _said(kind: type[Event]) -> tuple[str, ...]:
    texts = (n for n, hint in get_type_hints(kind).items() if hint is str or _is_texts(hint))
    return tuple(name for name in texts if name not in _STRUCTURAL)


def _is_texts(hint: object) -> bool:
    return get_origin(hint) is tuple and hint == tuple[str, ...]


# ---------------------------------------------------------------- what is secret


def _secrets_of(environment: Mapping[str, str]) -> Iterator[str]:
    places = _places(environment)
    for name, value in environment.items():
        for login in URL_LOGIN.findall(value):
            yield from (part for part in (login, login.partition(":")[2]) if _is_telling(part, _SHORTEST))
        sure = bool(_SURE_NAME.search(name))
        if _INNOCENT_NAME.search(name) or not (sure or SECRET_NAME.search(name)):
            continue
        if not sure and "/" in value:
            continue
        if _is_telling(value, _SHORTEST if sure else _SHORTEST_UNSURE) and value not in places:
            yield value
            yield from (line for line in value.splitlines() if len(line) >= _SHORTEST_LINE and line != value)


def _places(environment: Mapping[str, str]) -> set[str]:
    """Words that stand everywhere: who the user is, and the folders that all is in."""
    names = ("USER", "LOGNAME", "HOSTNAME", "HOME", "PWD")
    texts = [environment[name] for name in names if environment.get(name)]
    above = ["/".join(text.split("/")[:n]) for text in texts for n in range(2, text.count("/") + 2)]
    return {*texts, *above, *(part for text in texts for part in text.split("/"))}


def _is_telling(value: str, shortest: int) -> bool:
    """Whether a text is so special that it may be replaced wherever it stands."""
    if len(value) < shortest or value == HIDDEN or value.lower() in _COMMON:
        return False
    return value.strip("0123456789.,") != "" or len(value) >= _SHORTEST_NUMBER


def _names_a_secret(option: str) -> bool:
    name = re.sub(r"[-.]", "_", option.lstrip("-+").lower())
    return bool(_OPTION.search(name)) and not _NO_SECRET_OPTION.search(name) and "tokenizer" not in name


def _secrets_in(words: list[str]) -> Iterator[str]:
    for word, behind in zip(words, [*words, ""][1:], strict=True):
        name, equals, value = word.partition("=")
        if not equals:
            value = behind if word.startswith("-") and not behind.startswith("--") else ""
        if _names_a_secret(name) and _is_telling(value, _SHORTEST):
            yield value
        for login in URL_LOGIN.findall(word):
            yield from (part for part in (login, login.partition(":")[2]) if _is_telling(part, _SHORTEST))


def _secrets_of_plan(plan: Plan) -> Iterator[str]:
    yield from _secrets_of(dict(plan.profile.env))
    for rank in plan.ranks:
        yield from _secrets_of(dict(rank.env))
    yield from _secrets_in(list(plan.workload.args))
    for injection in plan.injections:
        for one in dataclasses.fields(injection.fault):  # type: ignore[arg-type] # each is a dataclass
            value = getattr(injection.fault, one.name)
            if _are_variables(value):
                yield from _secrets_of(dict(value))


def _are_variables(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and bool(value)
        and all(isinstance(p, tuple) and len(p) == 2 and all(isinstance(t, str) for t in p) for p in value)
    )


def _ordered(secrets: Iterable[str]) -> tuple[str, ...]:
    """The secrets, as they are and as they are quoted, the longest first: one may hold another."""
    found = {form for secret in secrets for form in _forms(secret)}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # as the environment has them
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield urllib.parse.quote(_bytes(secret), safe="")
    yield urllib.parse.quote(_bytes(secret))
    quoted = shlex.quote(secret)
    if quoted != secret:
        yield quoted[1:-1]
