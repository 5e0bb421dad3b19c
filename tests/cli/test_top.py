"""`barbicel top`: what is shown of a gateway, once; and the screen, from what a server told."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from io import StringIO

import pytest
from rich.console import Console

from barbicel.cli.amounts import bytes_text, count_text, duration_text
from barbicel.cli.top_screen import Snapshot, render
from tests.cli.live import Live, invoke
from tests.cli.support import document, environment, words

DEADLINE_S = 30.0


def test_once_it_shows_topics_queues_and_groups(live: Live) -> None:
    live.kafka("produce", "top-topic", stdin=b"a\nb\n")
    live.kafka("consume", "top-topic", "--group", "top-group", "--count", "1")
    live.kestrel("queue", "put", "top-queue", "x")
    result = invoke("top", "--once", "--admin", live.admin_url)
    assert result.exit_code == 0
    text = words(result)
    assert "ready" in text
    for name in ("top-topic", "top-queue", "top-group"):
        assert name in text
    assert all(line == line.rstrip() for line in result.stdout.split("\n"))


def test_as_json_it_is_what_the_server_told(live: Live) -> None:
    told = document(invoke("top", "--json", env=live.settings()))
    assert told["overview"]["is_ready"]
    assert set(told) == {"overview", "topics", "queues", "groups"}


def test_where_no_server_is_that_is_said() -> None:
    result = invoke("top", "--admin", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert "http://127.0.0.1:1: no server answers" in result.stderr


def test_another_server_is_not_taken_for_one(live: Live) -> None:
    result = invoke("top", "--admin", f"{live.admin_url}/metrics?")
    assert result.exit_code == 2
    assert "no console of barbicel" in result.stderr


def test_an_address_without_a_scheme_is_refused() -> None:
    assert "begins with http://" in invoke("top", "--admin", "localhost:8080").stderr


def test_on_a_terminal_it_draws_until_it_is_interrupted(live: Live) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-W", "ignore", "-m", "barbicel.cli.main", "top", "--interval", "0.2"]
    process = subprocess.Popen(
        [*command, "--admin", live.admin_url],
        stdin=theirs,
        stdout=theirs,
        env={**environment(), "TERM": "xterm", "LINES": "40"},
    )
    os.close(theirs)
    try:
        drawn, deadline_s = b"", time.monotonic() + DEADLINE_S
        while drawn.count(b"barbicel ") < 2 and time.monotonic() < deadline_s:
            drawn += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
        assert drawn.count(b"barbicel ") >= 2
    finally:
        process.kill()
        process.wait()
        os.close(ours)


# The screen


def snapshot(topics: int = 0, queues: int = 0, problems: tuple[str, ...] = ()) -> Snapshot:
    rates = {"messages_in": 0.0, "bytes_in": 0.0, "bytes_out": 0.0}
    overview = {
        "version": "1",
        "is_ready": not problems,
        "problems": list(problems),
        "uptime_s": 90061,
        "counts": {"topics": topics, "messages": 0, "clients": 0, "queues": queues},
        "rates": rates,
        "storage": {
            "data_bytes": 0,
            "disk_total_bytes": 100_000,
            "disk_free_bytes": 5_000,
            "memory_bytes": None,
        },
        "durability": {"fsync_median_s": None, "fsync_p99_s": 0.0123},
        "reactor_lag_s": 0.0,
    }
    topic_rows = [
        {
            "name": f"t{number:03}",
            "rates": {**rates, "bytes_in": float(number)},
            "messages": 0,
            "size_bytes": 0,
            "not_writable": [0] if number == 1 else [],
        }
        for number in range(topics)
    ]
    queue_rows = [{"name": f"q{number}", "rates": rates, "stats": None} for number in range(queues)]
    return Snapshot(overview, topic_rows, queue_rows, [])


def drawn(shown: Snapshot, rows: int) -> str:
    console = Console(width=100, file=StringIO(), record=True)
    console.print(render(shown, rows))
    return console.export_text()


def test_the_busiest_come_first_and_the_rest_is_counted() -> None:
    text = drawn(snapshot(topics=50), 10)
    assert "Topics, 10 of 50" in text
    assert text.index("t049") < text.index("t048")
    assert "t039" not in text


def test_rows_that_one_table_does_not_need_are_the_others() -> None:
    text = drawn(snapshot(topics=50, queues=2), 10)
    assert "Topics, 8 of 50" in text
    assert "q0" in text
    assert "q1" in text


def test_what_is_wrong_is_seen() -> None:
    text = drawn(snapshot(topics=2, problems=("the disk is full [red]",)), 10)
    assert "NOT READY" in text
    assert "the disk is full [red]" in text
    assert "not writable" in text
    assert "5 kB free of 100 kB!" in text
    assert "up 1 d 1 h" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.25, "0.2"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (1500, "1.5k"),
        (123456, "123k"),
    ],
)
def test_counts(number: float, text: str) -> None:
    assert count_text(number) == text


def test_amounts() -> None:
    assert bytes_text(None) == "-"
    assert bytes_text(271e9) == "271 GB"
    assert bytes_text(5e18) == "5000 PB"
    assert [duration_text(seconds) for seconds in (0, 61, 7300, 90061)] == [
        "0 s",
        "1 m 1 s",
        "2 h 1 m",
        "1 d 1 h",
    ]
