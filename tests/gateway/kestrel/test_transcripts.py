"""Every row of Kestrel's command table on the real queues: fed whole, byte by byte, and all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.kestrel.in_memory_clients import Client, in_memory_gateway
from tests.gateway.kestrel.transcripts import TRANSCRIPTS, VERSION, Transcript


def follow(client: Client, transcript: Transcript, step: int | None) -> None:
    for sent, answer in transcript.steps:
        client.send(sent, step)
        client.expect(answer)


def send_all_at_once(client: Client, transcript: Transcript, step: int | None) -> None:
    client.send(b"".join(sent for sent, _ in transcript.steps), step)
    client.expect(b"".join(answer for _, answer in transcript.steps))


FEEDING = {
    "whole": lambda client, transcript: follow(client, transcript, None),
    "byte by byte": lambda client, transcript: follow(client, transcript, 1),
    "pipelined": lambda client, transcript: send_all_at_once(client, transcript, None),
    "pipelined in pieces": lambda client, transcript: send_all_at_once(client, transcript, 7),
}


@pytest.mark.parametrize("feed", FEEDING)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_every_byte_is_as_in_the_transcript(tmp_path: Path, transcript: Transcript, feed: str) -> None:
    with in_memory_gateway(tmp_path / "data", **transcript.settings) as gateway:
        client = gateway.connect()
        FEEDING[feed](client, transcript)
        if transcript.closes:
            client.await_close()
        else:
            # Nothing but this is answered any more, so nothing was left over.
            client.ask(*VERSION)
            assert client.take() == b""
            assert not client.is_closed


@pytest.mark.parametrize(
    "transcript",
    [transcript for transcript in TRANSCRIPTS if transcript.closes],
    ids=lambda transcript: transcript.name,
)
def test_what_follows_the_end_is_not_served(tmp_path: Path, transcript: Transcript) -> None:
    with in_memory_gateway(tmp_path / "data", **transcript.settings) as gateway:
        client = gateway.connect()
        client.send(b"".join(sent for sent, _ in transcript.steps) + b"set late 0 0 1\r\nx\r\nversion\r\n")
        client.expect(b"".join(answer for _, answer in transcript.steps))
        client.await_close()
        client.send(b"version\r\n")
        assert client.take() == b""
        assert "late" not in gateway.queues.queues.names()
