"""The gateway as its users run it: a process of its own, real sockets, real files."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Gateway", "running_gateway"]

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 60.0
POLL_S = 0.02
SERVED = re.compile(r"Kafka clients are served on [A-Z_]+://[0-9.]+:([0-9]+)")
KESTREL = re.compile(r"Kestrel clients are served on [0-9.]+:([0-9]+)")
ADMIN = re.compile(r"operators are served on http://[0-9.]+:([0-9]+)/")
KESTREL_TEXT = re.compile(r"Kestrel-text clients are served on [0-9.]+:([0-9]+)")


class Gateway:
    """A server process on a data directory. It can be killed and started again on the same ports."""

    def __init__(self, directory: Path, settings: dict[str, str], open_files: int | None = None) -> None:
        """`open_files` is its limit of them; without one it has the test's own."""
        self._open_files = open_files
        self.data = directory / "data"
        self.log = directory / "gateway.log"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = "127.0.0.1", 0
        self.kestrel_port = self.kestrel_text_port = self.admin_port = 0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """On return it serves."""
        flags = {
            "data-directory": str(self.data),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "kestrel-port": str(self.kestrel_port),
            "kestrel-text-port": str(self.kestrel_text_port),
            "admin-port": str(self.admin_port),
            "group-initial-rebalance-delay-ms": "0",
            **{name.replace("_", "-"): value for name, value in self._settings.items()},
        }
        arguments = [part for name, value in flags.items() for part in (f"--{name}", value)]
        # What earlier starts have logged is kept: tests look at it.
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "barbicel.cli.main", "serve", *arguments],
                stdout=log,
                stderr=log,
                env={**_without_settings(os.environ), "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        if self._open_files is not None:
            # Long before it looks: it has not even imported anything.
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (self._open_files, self._open_files))
        self._wait_until_served(before)

    def _wait_until_served(self, position: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline:
            text = self.log.read_bytes()[position:].decode()
            found = SERVED.search(text)
            if found is not None:
                self.port = int(found[1])
                # They are told before Kafka's.
                self.kestrel_port = _port(KESTREL, text)
                self.kestrel_text_port = _port(KESTREL_TEXT, text)
                self.admin_port = _port(ADMIN, text)
                return
            assert self._process.poll() is None, f"the gateway did not start: {text}"
            time.sleep(POLL_S)
        raise AssertionError(f"the gateway did not start in time: {self.log.read_text()}")

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """In order; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            return process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the gateway did not stop: {self.log.read_text()}") from None


def _port(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return 0 if found is None else int(found[1])


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """A test's gateway has the settings that the test says, and no others."""
    return {name: value for name, value in environment.items() if not name.startswith("BARBICEL_")}


@contextmanager
def running_gateway(directory: Path, **settings: str) -> Iterator[Gateway]:
    """Settings by their names with underscores: num_partitions="3"."""
    gateway = Gateway(directory, settings)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()
