"""Fires around the nth call of a function that is known by its dotted name.

A function of torch or of the standard library is wrapped before the script runs. One of another module is
wrapped as soon as that module has been imported, before anybody can take it from there: to import it earlier
than the script does could change what it does. One of the script itself (``__main__.train_step``) is wrapped
where it is defined. May not change what the function gets or returns.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import runpy
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, Final

from chaoskit.model import Phase
from chaoskit.rank.triggers import Fire, Shot

_MAIN: Final = "__main__"
_OURS: Final = frozenset({*sys.stdlib_module_names, "torch", "chaoskit"}) - {_MAIN}
"""Packages whose import changes nothing for the script: they are there already, or do nothing by it."""
_in_script: dict[str, list[Callable[[Any], Any]]] = {}
"""What wraps a function of the script, by its name there: a rank runs one script."""


def watch(shots: Iterable[Shot], fire: Fire) -> None:
    """Look out for the calls. Raises ImportError or AttributeError where torch has no such function."""
    later: dict[str, list[Shot]] = {}
    for shot in shots:
        package = shot.when.call.partition(".")[0]
        if package == _MAIN:
            name = shot.when.call.partition(".")[2]
            _in_script.setdefault(name, []).append(functools.partial(counted, shot=shot, fire=fire))
        elif package in _OURS:
            wrap_call(shot, fire)
        else:
            for module in _prefixes(shot.when.call):
                later.setdefault(module, []).append(shot)
    if later:
        sys.meta_path.insert(0, _AfterImport(later, fire))
    if _in_script:
        _instrument_modules()


def wrap_call(shot: Shot, fire: Fire) -> None:
    """Replace the function that the trigger names by one that fires before or after its nth call."""
    owner, name = _resolve(shot.when.call)
    _wrap(owner, name, shot, fire)


def _wrap(owner: Any, name: str, shot: Shot, fire: Fire) -> None:
    original = inspect.getattr_static(owner, name)
    if isinstance(original, type):  # a class stays one: its making is the call
        owner, name, original = original, "__init__", original.__init__  # type: ignore[misc]
    if isinstance(original, (staticmethod, classmethod)):
        setattr(owner, name, type(original)(counted(original.__func__, shot, fire)))
    else:
        setattr(owner, name, counted(original, shot, fire))


def counted(original: Any, shot: Shot, fire: Fire) -> Any:
    """Return ``original`` with ``shot`` before or after its nth call."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        due = shot.due()
        if due and shot.when.phase is not Phase.AFTER:
            fire(shot)
        result = original(*args, **kwargs)
        if due and shot.when.phase is Phase.AFTER:
            fire(shot)
        return result

    return call


def _prefixes(dotted: str) -> list[str]:
    """Return the modules that may hold the name: ``a.b.f`` may be f of a.b, or b.f of a."""
    parts = dotted.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _resolve(dotted: str) -> tuple[Any, str]:
    for module in reversed(_prefixes(dotted)):
        try:
            owner: Any = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        return _inside(owner, dotted.removeprefix(f"{module}."))
    raise ModuleNotFoundError(f"no module in {dotted!r} can be imported")


def _inside(owner: Any, dotted: str) -> tuple[Any, str]:
    *path, name = dotted.split(".")
    for part in path:
        owner = getattr(owner, part)
    getattr(owner, name)
    return owner, name


# ---------------------------------------------------------------- modules that the script imports later


class _AfterImport:
    """Finds nothing by itself: wraps functions of the modules that the others found, once they are loaded."""

    def __init__(self, shots: dict[str, list[Shot]], fire: Fire) -> None:
        self._shots = shots
        self._fire = fire

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._shots:
            return None
        finders: list[Any] = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        spec: ModuleSpec | None = None
        for finder in finders:
            if (spec := finder.find_spec(name, path, target)) is not None:
                break
        loader: Any = spec.loader if spec is not None else None
        if loader is not None and hasattr(loader, "exec_module") and not isinstance(loader, type):
            loader.exec_module = functools.partial(self._load, loader, loader.exec_module)
        return spec

    def _load(self, loader: Any, load: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
        del loader.exec_module  # as it was
        load(module)
        waiting = self._shots.get(module.__name__, [])
        for shot in list(waiting):
            try:
                owner, name = _inside(module, shot.when.call.removeprefix(f"{module.__name__}."))
            except AttributeError:
                continue  # in a submodule, or nowhere: then it is never reached, and that is what is said
            _wrap(owner, name, shot, self._fire)
            for others in self._shots.values():
                if shot in others:
                    others.remove(shot)


# ---------------------------------------------------------------- functions of the script itself


def compiled(source: bytes | str, path: str) -> types.CodeType:
    """Compile the script. Functions that a trigger waits for are wrapped where the script defines them."""
    if not _in_script:
        code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
        return code
    tree = ast.parse(source, path)
    for name in _in_script:
        for definition in _definitions(tree.body, name.split(".")):
            _decorate(definition, name)
    instrumented: types.CodeType = compile(tree, path, "exec", dont_inherit=True)
    return instrumented


def wrapped(name: str) -> Callable[[Any], Any]:
    """The decorator that :func:`compiled` puts on a function of the script."""

    def decorate(function: Any) -> Any:
        for wrap in _in_script.get(name, ()):
            function = wrap(function)
        return function

    return decorate


_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(body: Sequence[ast.stmt], path: Sequence[str]) -> Iterator[_Definition]:
    """Yield the definitions of ``path`` at the top of a script or a class, also in an ``if`` or ``try``."""
    for statement in body:
        if isinstance(statement, _Definition):
            if len(path) == 1 and statement.name == path[0]:
                yield statement
        elif isinstance(statement, ast.ClassDef):
            if len(path) > 1 and statement.name == path[0]:
                yield from _definitions(statement.body, path[1:])
            elif path == [statement.name]:  # a class stays one: its making is the call
                yield from _definitions(statement.body, ["__init__"])
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(statement, block, ()), path)


def _decorate(definition: _Definition, name: str) -> None:
    """Nearest to the function, so that ``@staticmethod`` and the like stay what is seen from outside."""
    # An expression, so that the script's own names stay as they are.
    text = f"__import__({__name__!r}, fromlist=['wrapped']).wrapped({name!r})"
    decorator = ast.parse(text, mode="eval").body
    for node in ast.walk(decorator):
        ast.copy_location(node, definition)
    definition.decorator_list.append(decorator)


def _instrument_modules() -> None:
    """Do for ``python -m`` what :func:`compiled` does for a script."""
    run: Any = runpy._run_code  # type: ignore[attr-defined]

    @functools.wraps(run)
    def run_code(code: types.CodeType, *args: Any, **kwargs: Any) -> Any:
        spec = next((a for a in (*args, *kwargs.values()) if isinstance(a, ModuleSpec)), None)
        get_source = getattr(spec.loader, "get_source", None) if spec is not None else None
        source = get_source(spec.name) if get_source is not None and spec is not None else None
        return run(compiled(source, code.co_filename) if source else code, *args, **kwargs)

    runpy._run_code = run_code  # type: ignore[attr-defined]
