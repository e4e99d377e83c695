"""The folder for temporary files that an arm has for itself."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from launchers.conftest import RunningTest

from chaoskit.history import LauncherEnded, LauncherStarted
from chaoskit.launchers import kernel, temporary

pytestmark = pytest.mark.timeout(300)
SOCKET_PATH_BYTES = 107
LONGEST_BELOW = "/torch-shm-dir-XXXXXX/manager.sock"

LEAVES = """
import os, tempfile, multiprocessing.util as util
tempfile.mkdtemp(prefix="torchelastic_")
print(util.get_temp_dir(), flush=True)
"""


@pytest.mark.parametrize("base", ["/tmp", "/tmp/" + "x" * 30, "/tmp/" + "x" * 60])
def test_a_socket_fits_into_it(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", base)
    folder = temporary.name(4_194_304)
    assert folder.startswith(base if len(base) < 45 else "/tmp/chaoskit-")
    assert len(folder) + len(LONGEST_BELOW) <= SOCKET_PATH_BYTES
    assert len(folder + "/pymp-xxxxxxxx/listener-xxxxxxxx") <= SOCKET_PATH_BYTES


def test_what_a_server_left_is_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for base in (tempfile.mkdtemp(prefix="k"), str(tmp_path / ("x" * 60))):
        os.makedirs(base, exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", base)
        folder = temporary.name(999_999_999)
        os.mkdir(folder)
        temporary.remove_all(999_999_999)
        assert not os.path.exists(folder)
        os.rmdir(base)


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", "signal"])
def test_what_a_launcher_leaves_there_goes_with_the_arm(end: str, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    before = set(os.listdir(tempfile.gettempdir()))
    folder = temporary.name(os.getpid())
    last = "import time; time.sleep(600)" if end == "signal" else end
    arm: RunningTest = start(
        "finish", temporary=folder, isolate=False, environment=tuple(os.environ.items()),
        command=(sys.executable, "-c", LEAVES + last),
    )  # fmt: skip
    arm.until(LauncherStarted)
    output = arm.folder / "launcher" / "stdout.log"
    if end == "signal":
        while "pymp" not in (output.read_text() if output.exists() else ""):
            kernel.readable_within(arm.arm.connection.fileno(), 0.05)
        assert {name[:5] for name in os.listdir(folder)} == {"pymp-", "torch"}
        arm.arm.connection.close()  # as if the runner were killed
        arm.arm.close()
    else:
        arm.until(LauncherEnded)
        arm.finish()
        assert output.read_text().startswith(folder + "/pymp-")
    assert not os.path.exists(folder)
    assert set(os.listdir(tempfile.gettempdir())) & {os.path.basename(folder)} <= before
