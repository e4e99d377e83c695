"""The command line. Each command is a file of its own and is imported only when it is called.

Starting has a budget of 0.15 s: neither torch, pydantic nor rich may be imported here. Whatever goes
wrong ends in an exit code of :class:`chaoskit.errors.ExitCode` and a message, never in a traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from chaoskit.cli.printing import abandon_output, complain, report_internal
from chaoskit.errors import ChaoskitError, ExitCode

COMMANDS = {
    "run": "Run scenarios on real process groups and judge what happened.",
    "watch": "Watch your own program as it is: does it end well, and if not, which rank and line?",
    "list": "List the scenarios of the library.",
    "show": "Tell a scenario in words: what happens, where it was seen, what must hold.",
    "validate": "Check scenario and profile files: every problem at once.",
    "new": "Write a commented scenario to start from.",
    "judge": "Judge runs again from their files, without running anything.",
    "report": "Tell of a run again: terminal, HTML, trace, Markdown or JUnit.",
    "compare": "Say what differs between two runs: of another cluster, image or profile.",
    "cost": "Measure what guards and settings cost in throughput, and how much sooner a job ends.",
    "plan": "Write the plan of one arm, for a launcher that chaoskit does not start.",
    "matrix": "Say which guard holds which fault, and the smallest set that holds them all.",
    "claims": "Run what people are told about hangs and settings, and say what it really does here.",
    "profiles": "List the built-in profiles, show one, or check your own.",
    "doctor": "Say what this machine can do, and what would be skipped here.",
    "schema": "Print a JSON Schema of scenario files, profile files, or the JSON output.",
}
"""Every command, and its line in ``--help``; the command ``new`` is ``chaoskit.cli.new.new``."""

SIGPIPE_EXIT = 141  # as a shell reports a process whose reader has gone


class Commands(click.Group):
    """The commands of the table, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = MODULES.get(cmd_name, cmd_name)
        command = getattr(importlib.import_module(f"chaoskit.cli.{module}"), module)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}; {_closest(args[0])}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


MODULES = {"list": "list_scenarios"}
"""The module of a command, and its object there, where the command's own name would hide a builtin."""


def _closest(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, COMMANDS, 1)
    return f"did you mean {close[0]}?" if close else "see chaoskit --help"


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib import metadata

        try:
            version = metadata.version("chaoskit")
        except metadata.PackageNotFoundError:
            version = "(not installed, run from its source)"
        click.echo(f"chaoskit {version}")
        ctx.exit()


@click.group(
    cls=Commands, invoke_without_command=False, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.option(
    "--traceback", "with_traceback", is_flag=True, help="Show the traceback of an error of chaoskit itself."
)
@click.pass_context
def chaoskit(ctx: click.Context, with_traceback: bool) -> None:
    """Break a distributed PyTorch job at an exact point; see whether it ends, and whom to blame."""
    ctx.obj = with_traceback


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(given)
        if sys.stdout is not None:  # None: closed before Python started
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        abandon_output()
        return SIGPIPE_EXIT
    except OSError as error:  # writing what was buffered failed: a full disk
        abandon_output()
        complain(f"the output could not be written: {error.strerror or error}")
        return ExitCode.INTERNAL


def _run(arguments: list[str]) -> int:
    try:
        # Not chaoskit.main(): it turns a closed pipe into exit code 1, which means *not held* here.
        with chaoskit.make_context("chaoskit", list(arguments)) as context:
            chaoskit.invoke(context)
        return ExitCode.OK
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        complain(error.format_message())
        return ExitCode.USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "chaoskit"
        complain(f"{error.format_message()}\n    see: {command} --help")
        return ExitCode.USAGE
    except click.ClickException as error:
        complain(error.format_message())
        return ExitCode.USAGE
    except ChaoskitError as error:
        complain(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except SystemExit as error:
        return _exit_code(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  # the last resort: chaoskit's own fault
        report_internal(error, with_traceback=_wants_traceback(arguments))
        return ExitCode.INTERNAL


def _wants_traceback(arguments: Sequence[str]) -> bool:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments  # the rest is a program's
    return "--traceback" in own or bool(os.environ.get("CHAOSKIT_TRACEBACK"))


def _exit_code(error: SystemExit) -> int:
    if isinstance(error.code, int):
        return error.code
    if error.code is None:
        return ExitCode.OK
    complain(str(error.code))
    return ExitCode.NOT_HELD
