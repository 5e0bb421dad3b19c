"""Commands against a gateway that runs, by each of its three ports."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from barbicel.cli.main import cli
from tests.support.gateway import Gateway

__all__ = ["Live", "objects"]


class Live:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def kafka(self, *arguments: str, stdin: bytes = b"") -> Result:
        return invoke(*arguments, "--bootstrap", self.gateway.bootstrap, stdin=stdin)

    def kestrel(self, *arguments: str, stdin: bytes = b"") -> Result:
        return invoke(*arguments, "--kestrel", f"127.0.0.1:{self.gateway.kestrel_port}", stdin=stdin)

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.admin_port}"

    def settings(self) -> dict[str, str]:
        """As the environment of a command that finds the gateway by itself."""
        return {
            "BARBICEL_LISTENERS": f"PLAINTEXT://{self.gateway.bootstrap}",
            "BARBICEL_KESTREL_PORT": str(self.gateway.kestrel_port),
            "BARBICEL_ADMIN_PORT": str(self.gateway.admin_port),
            "BARBICEL_DATA_DIRECTORY": str(self.gateway.data),
        }


def invoke(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(cli, list(arguments), input=stdin, env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "fault of barbicel" not in result.stderr, result.stderr
    return result


def objects(result: Result) -> list[Any]:
    """One JSON object a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]
