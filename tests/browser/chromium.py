"""A headless Chromium, driven over a pipe with its own protocol (CDP). Needs nothing but the browser.

No port is opened, and its end is waited for: with the pipe the browser ends too, with all its processes.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WAIT_S = 60.0


def found() -> str | None:
    """Return the browser of this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page. ``said``: what the console and uncaught errors said; ``asked``: the
    addresses that the page asked for."""

    def __init__(self, profile: Path) -> None:
        program = found()
        assert program is not None
        read_by_it, self._to = os.pipe()
        self._from, written_by_it = os.pipe()
        self._process = _start(program, profile, read_by_it, written_by_it)
        self._buffer = b""
        self._last = 0
        self._session = ""
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    # ---------------------------------------------------------------- what a test does

    def open(self, path: Path, width: int = 1280, height: int = 900) -> float:
        """Open a file; return the seconds until it was loaded and the first timelines in sight are drawn."""
        self.said.clear()
        self.asked.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        begun = time.perf_counter()
        self.call("Page.navigate", url=path.as_uri())
        self.until(f"document.readyState === 'complete' && innerWidth === {width}")
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        return time.perf_counter() - begun

    def evaluate(self, script: str) -> Any:
        """Return what ``script`` gives (a value of JSON)."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until ``script`` is true, a frame of the page after the other."""
        end = time.monotonic() + WAIT_S
        while not self.evaluate(script):
            assert time.monotonic() < end, f"never true: {script}"
            self.evaluate("new Promise((done) => requestAnimationFrame(done))")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str, **more: Any) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def media(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, whole: bool = False) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self, path: Path) -> None:
        paper = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(paper["data"]))

    # ---------------------------------------------------------------- the protocol

    def call(self, method: str, **parameters: Any) -> Any:
        """Return the answer to one command."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._note(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + WAIT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._from, 1 << 20) if ready else b""
            assert part, "the browser says nothing any more"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled":
                self.said.append(json.dumps(parameters)[:2000])
            case "Log.entryAdded":
                self.said.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])

    def close(self) -> None:
        """End the browser, and all that it started."""
        self._session = ""
        with suppress(AssertionError, OSError):
            self.call("Browser.close")
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # its own group, see _start
            self._process.wait()


def _start(program: str, profile: Path, reads: int, writes: int) -> subprocess.Popen[bytes]:
    """Start the browser; it reads commands from its file 3 and answers on its file 4."""
    options = [
        "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-gpu",
        "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-sync", "--mute-audio",
        "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    ]  # fmt: skip
    if os.getuid() == 0:
        options += ["--no-sandbox", "--no-zygote"]
    # Popen can keep the numbers of files, not change them: a shell does, and these are out of its way.
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (reads, writes)]
    line = 'exec "$0" "$@" 3<&{0} 4>&{1} {0}<&- {1}>&-'.format(*above)
    try:
        return subprocess.Popen(
            ["bash", "-c", line, program, *options, "about:blank"],
            pass_fds=above,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": str(profile)},
        )
    finally:
        for fd in (reads, writes, *above):
            os.close(fd)


@contextmanager
def browser(profile: Path) -> Iterator[Chromium]:
    """A browser that is gone at the end."""
    one = Chromium(profile)
    try:
        yield one
    finally:
        one.close()
