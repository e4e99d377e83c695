"""Writes docs/guards.md from the guards' own classes: `make docs`. A test checks that it is up to date."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from chaoskit.guards import REGISTRY
from chaoskit.model import Guard

PAGE = Path(__file__).with_name("guards.md")
INTRODUCTION = """\
<!-- Written by docs/generate_guards.py; run `make docs` after changing a guard. -->
# Guards

A guard is one protection of a training job. A profile names the guards and gives their settings; durations
are written as `30s` or `10m`, and `chaoskit run` shortens them all by `--time-scale`.

Guards need torch alone. To use them in a script without chaoskit's runner, put this before
`init_process_group`:

```python
import chaoskit.guards

chaoskit.guards.install("recommended")
```

## Exit codes

A guard ends its rank with a code of its own, so that a launcher's log says which one it was. A negative code
is a signal. Exit code 1 stays what it always was: an exception that nobody caught.

"""


def guards() -> list[type[Guard]]:
    """The built-in ones; another package's are documented there."""
    classes = (REGISTRY.get(name) for name in REGISTRY.names())
    return [cls for cls in classes if cls and cls.__module__.startswith("chaoskit.")]


def exit_codes(classes: list[type[Guard]]) -> str:
    rows = sorted(
        (abs(code), code, cls.name, meaning) for cls in classes for code, meaning in cls.exit_codes.items()
    )
    lines = [f"| {code} | [{name}](#{name}) | {meaning} |" for _, code, name, meaning in rows]
    return "\n".join(["| code | guard | meaning |", "|---|---|---|", *lines]) + "\n"


def section(cls: type[Guard]) -> str:
    backends = ", ".join(cls.backends)
    return (
        f"## {cls.name}\n\nLives in the {cls.lives_in}. Has an effect on: {backends}.\n\n"
        f"{markdown(inspect.getdoc(cls) or '')}\n\n{settings(cls)}"
    )


def settings(cls: type[Guard]) -> str:
    """The settings with their defaults, as they are written in a profile."""
    lines = [f"    {_key(f)}: {_default(f)}" for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    body = "\n".join(lines) if lines else ""
    return f"```yaml\nguards:\n  {cls.name}:{'' if body else ' {}'}\n{body}{chr(10) if body else ''}```\n"


def markdown(doc: str) -> str:
    """Docstrings mark code with double backticks and name classes by role; a page needs less."""
    plain = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", doc)
    return re.sub(r"(?<!`)``(?!`)", "`", plain).replace("::\n", ":\n")


def _key(field: dataclasses.Field[object]) -> str:
    return field.name.removesuffix("_s")


def _default(field: dataclasses.Field[object]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return str(field.default_factory())
    match field.default:
        case dataclasses.MISSING:
            return "# required"
        case None:
            return "null"
        case bool() as value:
            return str(value).lower()
        case int() | float() as value if field.name.endswith("_s"):
            return f"{value:g}s"
        case tuple() as values:
            return f"[{', '.join(map(str, values))}]"
        case value:
            return str(value)


def page() -> str:
    classes = guards()
    return INTRODUCTION + exit_codes(classes) + "\n" + "\n".join(section(cls) for cls in classes)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
