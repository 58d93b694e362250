"""A headless Chromium for tests, spoken to over a pipe: no driver, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def required() -> None:
    """Skip without a browser, or fail where one is demanded."""
    if CHROMIUM is None:
        assert "chromium" not in os.environ.get("SAVEMARK_REQUIRE", ""), "chromium is required"
        pytest.skip("no chromium here")


class Browser:
    """One page in one process; use it as a context."""

    def __init__(self, profile: Path) -> None:
        # Chromium reads requests from descriptor 3 and writes answers to 4, each ended by NUL.
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        # The shell moves the pipe's ends to 3 and 4 through high numbers: they may be those.
        script = f'exec 18<&{to_read} 19>&{to_write} 3<&18 4>&19; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *command, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._stream = os.fdopen(self._from, "rb")
        self._number, self._left = 0, b""
        self.complaints: list[str] = []
        self._session = ""
        target = self("Target.createTarget", url="about:blank")["targetId"]
        attached = self("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        self._stream.close()
        self._process.terminate()
        self._process.wait(timeout=300)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol; collect what the page complains of meanwhile."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def open(self, page: Path, width: int, dark: bool, height: int = 900) -> None:
        """Load a page at a width, in light or dark."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height,
             deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self("Page.navigate", url=page.as_uri())
        while self.run("document.readyState") != "complete":
            pass

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        found = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self, path: Path, whole: bool = True) -> None:
        """Save what the page looks like."""
        shot = self("Page.captureScreenshot", captureBeyondViewport=whole, format="png",
                    **({"clip": self._whole()} if whole else {}))  # fmt: skip
        path.write_bytes(base64.b64decode(shot["data"]))

    def _whole(self) -> dict[str, float]:
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = self._stream.read1(2**20)
            assert more, "chromium has ended"
            self._left += more
        message, self._left = self._left.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        told = answer.get("method", "")
        if told in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(answer["params"])[:2000])
        return answer
