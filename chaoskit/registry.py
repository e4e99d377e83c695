"""Finds the members of a family (faults, guards, workloads): one file each, or an entry point.

A member is a class with a ``name``; the file is named after it (``hold-gil`` is hold_gil.py, a
Python keyword gets a trailing underscore). Only the file that is asked for is imported. Members
from other packages come through the entry-point group ``chaoskit.<family>``.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import keyword
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from chaoskit.errors import BrokenPlugin

T = TypeVar("T")


def module_name(name: str) -> str:
    """Return the file (without .py) that holds the member ``name``."""
    stem = name.replace("-", "_")
    return stem + "_" if keyword.iskeyword(stem) else stem


class Registry(Generic[T]):
    """The members of one family, by name. ``check`` returns what is wrong with a class, or ''."""

    def __init__(self, package: str, base: type[T], check: Callable[[type[T]], str] = lambda _: "") -> None:
        self._package = package
        self._base = base
        self._check = check
        self._known: dict[str, type[T]] = {}
        self._plugins_loaded = False

    def names(self, plugins: bool = True) -> list[str]:
        """Return the names of all members, built in and (with ``plugins``) from other packages, sorted."""
        path = importlib.import_module(self._package).__path__
        for info in pkgutil.iter_modules(path):
            if not info.name.startswith("_") and not info.ispkg:
                self._load(f"{self._package}.{info.name}")
        if plugins:
            self._load_plugins()
        return sorted(self._known)

    def get(self, name: str) -> type[T] | None:
        """Return the member ``name`` or None. Raises BrokenPlugin when its file breaks the contract."""
        if name not in self._known:
            qualified = f"{self._package}.{module_name(name)}"
            if module_name(name).isidentifier() and importlib.util.find_spec(qualified) is not None:
                self._load(qualified)
            else:
                self._load_plugins()
        return self._known.get(name)

    def _load(self, qualified: str) -> None:
        module = importlib.import_module(qualified)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__ and issubclass(cls, self._base) and "name" in vars(cls):
                self._add(cls)

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        from importlib.metadata import entry_points  # 0.1 s: only when a plug-in may be meant

        for point in entry_points(group=self._package):
            try:
                cls = point.load()
            except Exception as error:
                raise BrokenPlugin(
                    f"plug-in {point.name} ({point.value}) cannot be loaded: {error}"
                ) from error
            self._add(cls)

    def _add(self, cls: object) -> None:
        if not (inspect.isclass(cls) and issubclass(cls, self._base)):
            raise BrokenPlugin(f"{cls!r}: expected a subclass of {self._base.__name__}")
        member: type[T] = cls
        if any(cls is known for known in self._known.values()):
            return  # checked before; reading its source again takes milliseconds
        where = f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
        if not dataclasses.is_dataclass(cls):
            raise BrokenPlugin(f"{where}: {cls.__name__} must be a frozen dataclass")
        if wrong := self._check(member):
            raise BrokenPlugin(f"{where}: {cls.__name__}: {wrong}")
        name: str = cls.name  # type: ignore[attr-defined]
        other = self._known.setdefault(name, member)
        if other is not member:
            raise BrokenPlugin(f"{where}: the name {name!r} is already taken by {other.__module__}")
