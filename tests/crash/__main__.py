"""`python -m tests.crash STATES [SEED]`: the long campaign, on all cores, until the states are through."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from time import monotonic

from tests.crash.campaign import Campaign

STATES_PER_SEED = 5_000


def _run(seed: int) -> int:
    campaign = Campaign(seed, STATES_PER_SEED)
    campaign.run()
    return campaign.looked_at


def main(states: int, first_seed: int) -> None:
    seeds = range(first_seed, first_seed + -(-states // STATES_PER_SEED))
    started, looked_at = monotonic(), 0
    with ProcessPoolExecutor(cpu_count()) as pool:
        for seed, count in zip(seeds, pool.map(_run, seeds), strict=True):
            looked_at += count
            rate = looked_at / (monotonic() - started)
            sys.stdout.write(f"seed {seed}: {looked_at} of {states} states, {rate:.0f} a second\n")
            sys.stdout.flush()
    sys.stdout.write(f"{looked_at} crash states, every promise kept\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
