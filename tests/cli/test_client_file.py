"""Commands with a file of client settings."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.live import Live, invoke


def test_commands_take_it(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=barbicel-test\nsecurity.protocol=PLAINTEXT\n")
    assert live.kafka("topic", "list", "--client-config", str(file)).exit_code == 0
    assert live.kafka("topic", "list", "--command-config", str(tmp_path / "nowhere")).exit_code == 2
    file.write_text("security.protocol=NONSENSE\n")
    assert live.kafka("topic", "list", "--client-config", str(file)).exit_code == 2


def test_a_port_that_is_not_kafkas_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barbicel.cli.server.BOOTSTRAP_MS", 600)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_hang_up, args=(listener,), daemon=True).start()
        result = invoke("topic", "list", "--bootstrap", f"127.0.0.1:{listener.getsockname()[1]}")
    assert result.exit_code == 2
    assert "does not let this client in: KafkaConnectionError" in result.stderr
    assert "--client-config" in result.stderr


def _hang_up(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            listener.accept()[0].close()
