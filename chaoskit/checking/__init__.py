"""What is wrong with a profile or an environment before anything runs: ``check`` applies every rule and
returns findings. Nothing is started, and torch is not imported."""

from chaoskit.checking.case import Case, Setting, Subject
from chaoskit.checking.check import check, subject_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.checking.reading import current_environment, read_subject
from chaoskit.checking.target import Target, read_target

__all__ = [
    "Case",
    "Finding",
    "Level",
    "Setting",
    "Subject",
    "Target",
    "check",
    "current_environment",
    "read_subject",
    "read_target",
    "subject_of",
]
