"""From what the user typed to the program that is to run: a script, a module, or a whole command.

What stands behind ``--`` belongs to the program, to the letter; click would lose where that begins. The
program is not run and not imported here: what Python has to say of it, it says in the ranks.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from chaoskit.cli.option_values import LAUNCHERS, RANKS_MAX, Found
from chaoskit.launchers import commands
from chaoskit.model import Launcher, Workload
from chaoskit.scenario import programs
from chaoskit.scenario.values import Wrong

SEPARATOR = "--"
BEHIND = "behind"
_EXAMPLE = "write the whole command behind it: --launcher command -- torchrun --nproc-per-node 4 train.py"


class ProgramCommand(click.Command):
    """A command whose callback gets ``behind``: the words behind the first ``--``; None without one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        try:
            rest = super().parse_args(ctx, args[:at])
        except click.NoSuchOption as error:
            if SEPARATOR not in args:
                raise click.UsageError(
                    f"{error.format_message()} What is meant for your program goes behind {SEPARATOR}.", ctx
                ) from None
            raise
        ctx.params[BEHIND] = tuple(args[at + 1 :]) if at < len(args) else None
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), f"[{SEPARATOR} ARGS...]"]


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """What names the program, as typed. ``behind`` None: there was no ``--``."""

    script: str | None = None
    module: str | None = None
    launcher: str | None = None
    behind: tuple[str, ...] | None = None

    @property
    def is_given(self) -> bool:
        return bool(self.script is not None or self.module is not None or self.launcher or self.behind)


def read_program(options: ProgramOptions, found: Found) -> tuple[Workload | None, Launcher | None]:
    """Return the program and the launcher; None for a program that is not named or not there."""
    launcher = found.one_of("--launcher", options.launcher, LAUNCHERS)
    if options.launcher is not None and launcher is None:
        return None, None
    args = options.behind or ()
    if options.script is not None and options.module is not None:
        found.add(f"a script ({options.script}) and a module ({options.module})", "give one of the two")
        return None, launcher
    if launcher == "command":
        return _command(options, args, found), launcher
    if options.script is not None:
        return _script(options.script, args, found), launcher
    if options.module is not None:
        return _module(options.module, args, found), launcher
    return None, launcher


def _script(text: str, args: Sequence[str], found: Found) -> Workload | None:
    try:
        program = programs.script(text, args)
        with open(program.target, "rb"):
            return program
    except Wrong as wrong:
        found.add(f"there is no script: {wrong.message}", _instead_of(text) or _kept(wrong.hint))
    except (OSError, ValueError) as error:
        found.add(f"{text}: cannot be read: {getattr(error, 'strerror', None) or error}")
    return None


def _kept(hint: str) -> str:
    """Return the hint for a file that is not there, as it is seen from the command line."""
    return (
        hint if hint.startswith(("did you mean", "name ")) else f"a relative path is seen from {os.getcwd()}"
    )


def _instead_of(text: str) -> str:
    """Return a hint where something else than a script was probably meant, or an empty text."""
    if text.endswith(".py"):
        return ""
    if os.path.isfile(f"{text}.py"):
        return f"did you mean {text}.py?"
    if os.path.isfile(os.path.join(text, "__main__.py")):
        return f"for the package write -m {text.strip(os.sep).replace(os.sep, '.')}"
    if os.sep not in text and _in_path(text):
        return f"a whole command goes behind --: chaoskit watch -- {text} ..."
    if "." in text and all(part.isidentifier() for part in text.split(".")):
        return f"for a module write -m {text}"
    return ""


def _module(name: str, args: Sequence[str], found: Found) -> Workload | None:
    try:
        program = programs.module(name, args)
    except Wrong as wrong:
        hint = "give a script without -m" if os.path.exists(name) else wrong.hint
        found.add(f"-m {name}: {wrong.message}", hint)
        return None
    top = name.partition(".")[0]
    if not _can_be_found(top):
        where = f"it is looked for in {os.getcwd()} and where packages are installed"
        found.add(f"-m {name}: there is no module {top}", where)
        return None
    return program


def _can_be_found(top: str) -> bool:
    """Return whether Python would find ``top``; nothing is imported by that."""
    with _current_folder_first():
        try:
            return importlib.util.find_spec(top) is not None
        except (ImportError, ValueError):  # ValueError: __main__, which has no spec
            return False


@contextmanager
def _current_folder_first() -> Iterator[None]:
    sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.pop(0)


def _command(options: ProgramOptions, words: Sequence[str], found: Found) -> Workload | None:
    named = options.script or options.module
    if named is not None:
        found.add(
            f"--launcher command: starts the words behind --, and {named} stands before them",
            _EXAMPLE,
        )
        return None
    if not words:
        found.add(
            "--launcher command: no command behind --",
            _EXAMPLE,
        )
        return None
    if not _in_path(words[0]):
        found.add(f"{words[0]}: there is no such command", _instead_of_command(words))
        return None
    program = programs.command(words)
    return found.attempt(lambda: _with_program(program))


def read_ranks(text: str | None, program: Workload | None, found: Found) -> int | None:
    """Return the number of ranks asked for; of a command what it says itself, as it starts them."""
    asked = found.whole("--ranks", text, 1, RANKS_MAX)
    if program is None or program.kind != "command" or (text is not None and asked is None):
        return asked
    started = commands.ranks_in(program.args)
    if started is None and asked is None:
        found.add(
            f"how many ranks does {program.name} start? Its options do not say it in a number",
            "add --ranks N before --",
        )
    if started is not None and asked not in (None, started):
        found.add(f"--ranks {asked}: but the command starts {started} ranks", "leave --ranks out")
    return asked if started is None else started


def _with_program(command: Workload) -> Workload:
    """Return ``command``. Raises InvalidInput where nobody can tell where its program begins."""
    commands.with_entry(command, ())
    return command


def _in_path(word: str) -> bool:
    return shutil.which(word) is not None


def _instead_of_command(words: Sequence[str]) -> str:
    if words[0].endswith(".py") and os.path.isfile(words[0]):
        behind = " ".join(words[1:])
        return f"a script goes before --: chaoskit watch {words[0]}" + (f" -- {behind}" if behind else "")
    if os.sep in words[0]:
        return "there is no such program that you may execute"
    if words[0] not in ("", ".", "..") and (beside := Path(sys.executable).with_name(words[0])).is_file():
        return f"did you mean {beside}?"
    return "give its path, or add it to PATH"
