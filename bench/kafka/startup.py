"""How long it takes from the start of the process to the first answer."""

from __future__ import annotations

from collections.abc import Iterator
from compileall import compile_dir
from functools import partial
from itertools import count
from pathlib import Path

import barbicel
from bench.kafka.scale import chosen_scale
from bench.kafka.servers import AGAINST, KAFKA, WRITE, running_servers
from bench.kafka.targets import STARTUP
from bench.report import Measurement, compare
from bench.rounds import interleave

__all__ = ["measure_startup"]


def measure_startup(directory: str) -> list[Measurement]:
    # As installing it does: otherwise the environment decides (PYTHONDONTWRITEBYTECODE).
    compile_dir(Path(barbicel.__file__).parent, quiet=1)
    places = (Path(directory, f"startup-{number}") for number in count())
    seconds = interleave(
        {name: partial(_start, name, places) for name in (WRITE, KAFKA)}, chosen_scale().rounds
    )
    return [
        compare(
            "start-up",
            "s",
            seconds[WRITE],
            seconds[KAFKA],
            against=AGAINST,
            target=STARTUP,
            reading="from the start of the process on an empty directory until ApiVersions and Metadata are"
            " answered. Kafka's directory was formatted and our modules were compiled before, as installing"
            " them does; neither is counted.",
        )
    ]


def _start(name: str, places: Iterator[Path]) -> float:
    with running_servers(next(places), (name,)) as servers:
        return servers[name].startup_seconds
