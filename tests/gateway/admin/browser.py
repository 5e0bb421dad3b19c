"""A real browser without a screen: Chromium, through the W3C WebDriver protocol of its chromedriver."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

__all__ = ["DESKTOP", "PHONE", "Browser", "browser_missing", "running_browser"]

DEADLINE_S = 30.0
POLL_S = 0.05
DESKTOP = (1280, 860)
PHONE = (390, 844)
STARTED = re.compile(r"started successfully on port (\d+)")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser_missing() -> str | None:
    """Why there is no browser here; None if there is one."""
    if shutil.which("chromedriver") is None:
        return "there is no chromedriver on this machine (Debian: apt-get install chromium chromium-driver)"
    if not any(map(shutil.which, BROWSERS)):
        return "there is no Chromium on this machine (Debian: apt-get install chromium)"
    return None


class Browser:
    """One window."""

    def __init__(self, port: int, size: tuple[int, int], profile: str, *, is_dark: bool = False) -> None:
        self._port = port
        width, height = size
        metrics = {"width": width, "height": height, "pixelRatio": 1, "mobile": width < 700}
        options = {
            "binary": next(found for name in BROWSERS if (found := shutil.which(name))),
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if is_dark else []),
            ],
            "mobileEmulation": {"deviceMetrics": metrics},
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._session = ""
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S * 2)
        try:
            data = None if method == "GET" else json.dumps(body or {})
            connection.request(method, self._session + path, data, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def open(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The body of a function in the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, expression: str) -> Any:
        """What it is in the page as soon as that is something."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            found = self.run(f"return {expression}")
            if found:
                return found
            time.sleep(POLL_S)
        raise AssertionError(f"it has not come to that: {expression}\n{self.text()}")

    def text(self) -> str:
        """What people can read on the page."""
        found: str = self.run("return document.body.innerText")
        return found

    def type(self, selector: str, text: str) -> None:
        """As with a keyboard."""
        element = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        (number,) = element.values()
        self._ask("POST", f"/element/{number}/clear")
        self._ask("POST", f"/element/{number}/value", {"text": text})

    def click(self, selector: str) -> None:
        element = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        (number,) = element.values()
        self._ask("POST", f"/element/{number}/click")

    def complaints(self) -> list[str]:
        """What the browser's console said since the last time: errors and what the page's policy forbids."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        found: int = self.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found

    def screenshot(self) -> bytes:
        return base64.b64decode(self._ask("GET", "/screenshot"))

    def close(self) -> None:
        self._ask("DELETE", "")


@contextmanager
def running_browser(size: tuple[int, int] = DESKTOP, *, is_dark: bool = False) -> Iterator[Browser]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True) as driver,
    ):
        try:
            browser = Browser(_port_of(driver), size, profile, is_dark=is_dark)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


def _port_of(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if found := STARTED.search(line):
            return int(found[1])
    raise AssertionError("chromedriver did not start")
