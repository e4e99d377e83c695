"""Applies every rule to a subject."""

from __future__ import annotations

from chaoskit.checking.case import Case, Setting, Subject
from chaoskit.checking.env_file import has_expansion
from chaoskit.checking.family import REGISTRY, apply
from chaoskit.checking.finding import Finding
from chaoskit.checking.target import Target
from chaoskit.model import Profile


def check(subject: Subject, target: Target) -> tuple[Finding, ...]:
    """Return all that is to be said, what weighs most first, then by line."""
    case = Case(subject, target)
    rules = [cls for name in REGISTRY.names() if (cls := REGISTRY.get(name)) is not None]
    found = [finding for cls in rules for finding in apply(cls(), case)]
    return tuple(sorted(found, key=lambda f: (f.level.weight, f.line, f.subject, f.rule)))


def subject_of(profile: Profile) -> Subject:
    """Return a profile that was read already as a subject; its lines are not known."""
    settings = tuple(Setting(name, value, 0, has_expansion(value)) for name, value in profile.env)
    return Subject("profile", profile.file or profile.name, settings, profile.guards)
