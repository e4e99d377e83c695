"""``chaoskit profiles``: the built-in profiles, their guards and their variables."""

from __future__ import annotations

import dataclasses

import click

from chaoskit.cli.printing import plain, say, say_json
from chaoskit.cli.profiles_check import check
from chaoskit.model import Guard, Profile


@click.group("profiles", invoke_without_command=True)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="What stdout gets."
)
@click.pass_context
def profiles(ctx: click.Context, form: str) -> None:
    """List the built-in profiles; `profiles show NAME` tells all of one, `profiles check` what is wrong."""
    if ctx.invoked_subcommand is not None:
        return
    from chaoskit.scenario import load_profile, profile_names

    found = [load_profile(name) for name in profile_names()]
    if form == "json":
        say_json({"profiles": [_entry(one) for one in found]})
        return
    width = max(len(one.name) for one in found)
    for one in found:
        guards = ", ".join(g.name for g in one.guards) or "no guard"
        variables = ", ".join(f"{k}={v}" for k, v in one.env)
        say(f"{one.name:<{width}}  {one.summary}")
        say(f"{'':<{width}}  {guards}{f'; {variables}' if variables else ''}")


profiles.add_command(check)


@profiles.command("show")
@click.argument("name", metavar="NAME|FILE")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="What stdout gets."
)
def show(name: str, form: str) -> None:
    """Tell all of a profile: guards with their settings and exit codes, variables with their readers."""
    from chaoskit.scenario import load_profile

    found = load_profile(name)
    if form == "json":
        say_json(_entry(found))
        return
    say(f"{found.name}: {found.summary}")
    for guard in found.guards:
        _show_guard(guard)
    _show_variables(found)


def _show_guard(guard: Guard) -> None:
    about = plain(_about(guard))
    where = f"in the {guard.lives_in}"
    only = "" if len(guard.backends) > 1 else f", on {guard.backends[0]} only"
    say(f"\n  {guard.name} ({where}{only})")
    say(f"      {about}")
    if settings := {key: value for key, value in _settings(guard).items() if value not in (None, "")}:
        say(f"      {', '.join(_text(key, value) for key, value in settings.items())}")
    for code, meaning in guard.exit_codes.items():
        say(f"      exit {code}: {meaning}")


def _about(guard: Guard) -> str:
    """The first paragraph of a guard's documentation: whole sentences, no markup, settings as in a file."""
    import inspect
    import re

    text = (inspect.getdoc(type(guard)) or "").partition("\n\n")[0].replace("\n", " ")
    text = re.sub(r"``?([^`]*)``?|(?<![\w*])\*([^*]+)\*(?![\w*])", lambda found: found[1] or found[2], text)
    for field in _settings(guard):
        text = re.sub(rf"\b{field}\b", field.removesuffix("_s"), text)
    text = re.sub(r"\s*:+$", ".", text)  # a list or an example follows
    return text if text.endswith((".", ")")) else text[: text.rfind(". ") + 1] or text


def _show_variables(profile: Profile) -> None:
    from chaoskit.profiles.variables import lookup

    for name, value in profile.env:
        known = lookup(name)
        only = "" if len(known.backends) > 1 else f", on {known.backends[0]} only"
        note = f"; {known.note}" if known.note else ""
        say(f"\n  {name}={value}\n      read by {known.reader} ({known.read_when}){only}{note}")


def _settings(guard: Guard) -> dict[str, object]:
    fields = dataclasses.fields(guard)  # type: ignore[arg-type]  # guards are dataclasses
    return {f.name: getattr(guard, f.name) for f in fields}


def _text(name: str, value: object) -> str:
    """A setting as it stands in a profile file."""
    if isinstance(value, bool):
        return f"{name}: {'true' if value else 'false'}"
    if name.endswith("_s") and isinstance(value, float):
        return f"{name.removesuffix('_s')}: {value:g}s"
    return f"{name}: {value}"


def _entry(profile: Profile) -> dict[str, object]:
    return {
        "name": profile.name,
        "summary": profile.summary,
        "guards": [
            {
                "name": guard.name,
                "lives_in": guard.lives_in,
                "backends": list(guard.backends),
                "settings": _settings(guard),
                "exit_codes": {str(code): meaning for code, meaning in guard.exit_codes.items()},
            }
            for guard in profile.guards
        ],
        "env": dict(profile.env),
    }
