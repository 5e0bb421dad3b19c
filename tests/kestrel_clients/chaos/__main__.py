"""`python -m tests.kestrel_clients.chaos --seconds N`: a run in each durability, half of the time each.

It ends with 1 if there were anomalies.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from tests.kestrel_clients.chaos.run import Outcome, Run

DURABILITIES = ("fsync", "write")
MOST_SHOWN = 20


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _report(outcome: Outcome) -> None:
    for anomaly in outcome.anomalies[:MOST_SHOWN]:
        _tell(str(anomaly))
    if len(outcome.anomalies) > MOST_SHOWN:
        _tell(f"{len(outcome.anomalies) - MOST_SHOWN} more")
    _tell(outcome.summary)


def main(seconds: float, seed: int, durabilities: list[str]) -> int:
    """What a run with anomalies has stored is kept, and it says where."""
    code = 0
    for durability in durabilities:
        directory = Path(mkdtemp(prefix=f"kestrel-chaos-{durability}-"))
        outcome = Run(directory, durability, seed, _tell).run(seconds / len(durabilities))
        _report(outcome)
        if outcome.anomalies:
            _tell(f"the data and the gateway's log are in {directory}")
            code = 1
        else:
            rmtree(directory)
    return code


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m tests.kestrel_clients.chaos")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--durability", choices=DURABILITIES, action="append")
    given = parser.parse_args()
    sys.exit(main(given.seconds, given.seed, given.durability or list(DURABILITIES)))
