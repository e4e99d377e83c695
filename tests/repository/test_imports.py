"""What an import may cost and need. Each is measured in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

# chaoskit.model makes some 25 dataclasses: a third of the time that starting may take.
HEAVY = (
    "torch", "numpy", "pydantic", "rich", "ruamel", "multiprocess", "jinja2", "pyroute2", "chaoskit.model",
)  # fmt: skip

# Blocks every distribution but torch and what torch itself requires.
TORCH_ALONE = """
import importlib.metadata as metadata, re, sys

def same(name):
    return re.sub("[-_.]+", "-", name).lower()

allowed, todo = set(), ["torch"]
while todo:
    name = same(todo.pop())
    if name not in allowed:
        allowed.add(name)
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        todo += [re.match(r"[\\w.-]+", need)[0] for need in needs if "extra ==" not in need]
owners = metadata.packages_distributions()

class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "chaoskit" and top in owners and not {same(o) for o in owners[top]} & allowed:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked: not torch)", name=name)

sys.meta_path.insert(0, Blocker())
try:
    import psutil
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the blocker does not block")
"""


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "import chaoskit",
        "import chaoskit.cli",
        "import chaoskit.cli; run(['--help'])",
        "import chaoskit.cli; run(['list'])",
    ],
)
def test_start_up_loads_nothing_heavy(statement: str) -> None:
    """Each of these costs 0.1 s or more, and `--help` and `list` have 0.15 s in all."""
    loaded = python(
        "import contextlib, io, sys\n"
        "def run(arguments):\n"
        "    sys.argv = ['chaoskit', *arguments]\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "        chaoskit.cli.main()\n"
        f"{statement}\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert loaded.strip() == "[]"


def test_guards_and_rank_import_with_torch_alone() -> None:
    python(
        TORCH_ALONE + "import pkgutil, importlib, chaoskit\n"
        "for package in ('guards', 'rank', 'intercept', 'faults', 'workloads'):\n"
        "    folder = f'{chaoskit.__path__[0]}/{package}'\n"
        "    for module in pkgutil.walk_packages([folder], f'chaoskit.{package}.'):\n"
        "        importlib.import_module(module.name)\n"
    )


def test_models_and_faults_do_not_load_torch() -> None:
    """The runner reads scenarios, plans and judges; only a rank needs torch."""
    loaded = python(
        "import sys, chaoskit.model, chaoskit.faults, chaoskit.guards, chaoskit.workloads\n"
        "chaoskit.faults.REGISTRY.names(), chaoskit.guards.REGISTRY.names()\n"
        "print('torch' in sys.modules)"
    )
    assert loaded.strip() == "False"
