"""kafka-python's classes come when they are used. In processes of their own: here all is imported already."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST_ANSWERS = "from barbicel.gateway import service; from barbicel.codecs.kafka import messages as m"


def imported_by(program: str) -> set[str]:
    """The modules that a process has when the program has ended."""
    program = f"import sys; sys.path[:] = {sys.path!r}; {program}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_server_starts_without_kafka_python() -> None:
    assert "kafka" not in imported_by(FIRST_ANSWERS)


def test_an_answer_imports_no_client_and_no_other_messages() -> None:
    found = imported_by(f"{FIRST_ANSWERS}; m.encode_response(m.MetadataResponse(topics=[], brokers=[]), 9)")
    assert "kafka.protocol.metadata" in found
    assert not {"kafka.net", "kafka.consumer", "kafka.protocol.admin"} & found


def test_all_can_be_made_ahead() -> None:
    found = imported_by(f"{FIRST_ANSWERS}; m.load_all()")
    assert {"kafka.protocol.admin", "kafka.protocol.consumer", "kafka.protocol.producer"} <= found
    assert "kafka.net" not in found


@pytest.mark.parametrize("client", ["from kafka import KafkaConsumer", "import kafka; kafka.KafkaConsumer"])
def test_the_clients_are_there_for_whoever_wants_them(client: str) -> None:
    program = f"{FIRST_ANSWERS}; m.is_flexible(3, 9); {client}; import kafka"
    same = "assert kafka.protocol.metadata.MetadataRequest is m.request_class(3)"
    assert "kafka.net" in imported_by(f"{program}; {same}")
