"""`python -m tests.chaos SECONDS [SEED [MODE ...]]`: a run in each mode, an equal part of the time each.

It ends with 1 if there were anomalies.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from tests.chaos.campaign import Campaign, Outcome
from tests.chaos.modes import MODES

DEFAULT_MODES = ("fsync", "write")
MOST_SHOWN = 20


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _report(outcome: Outcome) -> None:
    kinds = Counter(anomaly.kind for anomaly in outcome.anomalies)
    shown: Counter[str] = Counter()
    for anomaly in outcome.anomalies:
        shown[anomaly.kind] += 1
        if shown[anomaly.kind] <= MOST_SHOWN:
            _tell(str(anomaly))
    for kind, number in kinds.items():
        if number > MOST_SHOWN:
            _tell(f"{kind}: {number - MOST_SHOWN} more")
    _tell(outcome.summary)


def main(seconds: float, seed: int, modes: tuple[str, ...] = DEFAULT_MODES) -> int:
    """What a run with anomalies has stored is kept, and it says where."""
    code = 0
    for mode in modes:
        directory = Path(mkdtemp(prefix=f"chaos-{mode}-"))
        outcome = Campaign(directory, MODES[mode], seed, _tell).run(seconds / len(modes))
        _report(outcome)
        if outcome.anomalies:
            _tell(f"the data and the gateway's log are in {directory}")
            code = 1
        else:
            rmtree(directory)
    return code


if __name__ == "__main__":
    wanted = sys.argv[3:] or DEFAULT_MODES
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300.0
    sys.exit(main(seconds, int(sys.argv[2]) if len(sys.argv) > 2 else 0, tuple(wanted)))
