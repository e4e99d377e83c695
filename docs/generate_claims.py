"""Writes docs/claims/README.md and the page of each torch from the JSON files there: `make docs`.

The answers of claims are worked out again from those of their trials, so a changed rule needs no run.

With `--run` (`make claims TORCH=…`) the claims are run first, on the torch of this environment, and its JSON
file is written; nothing else writes one. What stands behind `--run` is passed to `chaoskit claims`. A test
checks that all is in step.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from chaoskit.cli import main
from chaoskit.errors import ExitCode
from chaoskit.reports.claims import json_output, markdown, page

FOLDER = Path(__file__).with_name("claims")
TOLD = (ExitCode.OK, ExitCode.INCONCLUSIVE)
"""Of a claim without an answer the page says why."""


def pages() -> dict[str, str]:
    """Return the files that follow from the JSON files, with what has to stand in them."""
    read = [(page.load(file), f"{file.stem}.md") for file in sorted(FOLDER.glob("torch-*.json"))]
    found = {name: markdown.render(one) for one, name in read}
    return {**found, "README.md": markdown.versions(read)}


def run(options: list[str]) -> int:
    """Run the claims and write the JSON file of the torch that is here. Returns an exit code."""
    FOLDER.mkdir(exist_ok=True)
    release = ".".join(version("torch").partition("+")[0].split(".")[:2])
    target = FOLDER / f"torch-{release}.json"
    unfinished = target.with_suffix(".new")  # an interrupted run does not take the place of a whole one
    code = main(["claims", "--runs-dir", "runs/claims", "--json", str(unfinished), *options])
    if code in TOLD:
        unfinished.replace(target)
    unfinished.unlink(missing_ok=True)
    return 0 if code in TOLD else code


if __name__ == "__main__":
    failed = run(sys.argv[2:]) if sys.argv[1:2] == ["--run"] else 0
    if not failed:
        for file in FOLDER.glob("torch-*.json"):
            file.write_text(json_output.answered_again(file.read_text(encoding="utf-8")), encoding="utf-8")
        for name, text in pages().items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    sys.exit(failed)
