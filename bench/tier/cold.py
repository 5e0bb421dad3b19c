"""Reading what only the store has, beside bare gets of the same objects."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from bench.kafka.clients import run_client
from bench.kafka.driver import Job
from bench.report import Measurement, Target, compare
from bench.rounds import ROOT, interleave
from bench.tier.filling import LARGE, PARTITIONS
from bench.tier.gateways import TieringGateway
from bench.tier.stores import Place
from tests.support.gateway import Gateway

__all__ = ["measure_cold"]

DEADLINE_S = 120.0
MEGABYTE = 1e6
TARGET = Target(">=", 0.7)
AGAINST = "bare get of the same objects"
READ = (
    "the gateway's reader of cold segments, in a process of its own and with a gateway's settings: all of a"
    " partition and then of the next one, in reads of 1 MiB, as fetches do. The peer gets whole objects, one"
    " after the other, and looks at nothing; ours checks every batch. Of a directory both find all in the"
    " kernel's memory."
)
CONSUMED = (
    "what a user sees: confluent-kafka reads half of the topic, from its beginning, from a gateway that was"
    " restarted and has nothing of it on its disk; in bytes of objects. The client unpacks every message, the"
    " peer does not: the next row tells what it lacks on account of the store, and what on its own."
)
HOT = "the same, beside the same consumer of the same topic on a gateway's disk: what the store costs a user."


def measure_cold(
    gateway: TieringGateway, hot: Gateway, kept: Place, messages: int, rounds: int
) -> list[Measurement]:
    """`gateway` has uploaded the topic to `kept`, `hot` has it on its disk."""
    # Half of the topic is enough, for a client is slow.
    half_bytes = gateway.tiered_bytes(LARGE) / 2

    def consume(server: Gateway) -> float:
        return half_bytes / MEGABYTE / _consume_seconds(server, messages // 2)

    def consume_cold() -> float:
        gateway.kill()
        gateway.start()
        return consume(gateway)

    rates = interleave(
        {
            "read": partial(_drive, "read", kept),
            "bare": partial(_drive, "get", kept),
            "consume": consume_cold,
            "hot": partial(consume, hot),
        },
        rounds,
    )
    row = partial(_row, rates["bare"])
    return [
        row("cold read", rates["read"], READ, TARGET),
        row("cold read, a consumer", rates["consume"], CONSUMED, None),
        compare(
            "cold read, a consumer, and from the disk",
            "MB/s",
            rates["consume"],
            rates["hot"],
            against="the same consumer, from the gateway's disk",
            reading=HOT,
            target=TARGET,
        ),
    ]


def _row(
    bare: Sequence[float], name: str, rates: Sequence[float], reading: str, target: Target | None
) -> Measurement:
    return compare(name, "MB/s", rates, bare, against=AGAINST, reading=reading, target=target)


def _consume_seconds(server: Gateway, messages: int) -> float:
    # The first message starts the clock, and is not counted.
    job = Job("consume", server.bootstrap, LARGE.name, messages - 1, LARGE.message_bytes, PARTITIONS)
    return run_client(job).seconds


def _drive(do: str, kept: Place) -> float:
    """MB/s."""
    job = json.dumps({"do": do, "url": kept.url, "options": dict(kept.options), "topic": LARGE.name})
    command = [sys.executable, "-m", "bench.tier.cold_driver", job]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S
    )
    return float(json.loads(done.stdout))
