"""A consumer that is caught up, while the same gateway uploads segments, and while it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path

from bench.kafka.clients import run_client
from bench.kafka.driver import READY, Job
from bench.report import Measurement, Target, compare
from bench.rounds import ROOT, interleave
from bench.tier.filling import LARGE, PLAIN
from bench.tier.gateways import TieringGateway, copied_gateway
from bench.tier.stores import Place

__all__ = ["measure_following"]

DEADLINE_S = 120.0
MEGABYTE = 1e6
MESSAGE_BYTES = 1000
# Nobody asks for the uploads: they begin soon after their topics are switched on, and give way to clients.
BY_ITSELF = {"remote_log_manager_task_interval_ms": "100"}
TARGET = Target(">=", 0.8)
READING = (
    "a consumer waits at the end of a topic, another process produces messages of 1 KB as fast as it can, and"
    " meanwhile the gateway uploads other topics, compressed ones and then plain ones; the peer is the"
    " same without uploads. All processes share the machine's cores, a store's server too. While the gateway"
    " is busy uploads give way, so that some of them wait meanwhile rather than run: nobody asks for them."
)
OUTLASTED = "rounds in which uploads were under way until the consumer had its last message."
MEANWHILE = (
    "what was uploaded while the consumer had its messages, in segments that were finished by then: of the"
    " round with the least."
)


def measure_following(
    filled: Path, directory: Path, place: Place, messages: int, rounds: int
) -> list[Measurement]:
    numbers, outlasted, meanwhile = count(), [], []

    def follow(*, with_uploads: bool) -> float:
        round_place = place.below(f"following-{next(numbers)}")
        with copied_gateway(filled, directory / "following", round_place, **BY_ITSELF) as gateway:
            job = Job("produce", gateway.bootstrap, "followed", messages, MESSAGE_BYTES)
            run_client(replace(job, messages=1))  # the topic is there
            seconds = _follow(job, partial(_upload, gateway) if with_uploads else lambda: None)
            if with_uploads:
                outlasted.append(gateway.has_waiting)
                uploaded_bytes = sum(map(gateway.tiered_bytes, (LARGE, PLAIN)))
                meanwhile.append(uploaded_bytes / MEGABYTE / seconds)
        return messages * MESSAGE_BYTES / MEGABYTE / seconds

    rates = interleave(
        {"with": lambda: follow(with_uploads=True), "without": lambda: follow(with_uploads=False)}, rounds
    )
    return [
        compare(
            "caught-up consumer during offload",
            "MB/s",
            rates["with"],
            rates["without"],
            against="without offload",
            reading=READING,
            target=TARGET,
        ),
        Measurement("offload outlasted the consumer", sum(outlasted), f"of {rounds} rounds", OUTLASTED),
        Measurement("offload during the consumer", min(meanwhile), "MB/s", MEANWHILE),
    ]


def _upload(gateway: TieringGateway) -> None:
    for topic in (LARGE, PLAIN):
        gateway.switch_on(topic)


def _follow(job: Job, begin: Callable[[], None]) -> float:
    """Seconds from a consumer's first message to its last; `begin` is called when it waits for them."""
    with _consuming(replace(job, do="consume_new")) as consumer:
        assert consumer.stdout is not None
        if consumer.stdout.readline().strip() != READY:
            raise RuntimeError(f"a client has failed: {job}")
        begin()
        run_client(job)
        output, _ = consumer.communicate(timeout=DEADLINE_S)
    return float(json.loads(output)["seconds"])


@contextmanager
def _consuming(job: Job) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.kafka.driver", json.dumps(asdict(job))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
