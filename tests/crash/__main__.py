"""`python -m tests.crash STATES [SEED]`: the long campaign, on all cores, until the states are through."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from time import monotonic

from tests.crash.campaign import Campaign
from tests.crash.group_campaign import GroupCampaign
from tests.crash.manifest_campaign import ManifestCampaign

STATES_PER_SEED = 5_000
# They take turns, seed by seed.
CAMPAIGNS: dict[str, type[Campaign | GroupCampaign | ManifestCampaign]] = {
    "log": Campaign,
    "groups": GroupCampaign,
    "manifest": ManifestCampaign,
}


def _run(job: tuple[str, int]) -> int:
    kind, seed = job
    campaign = CAMPAIGNS[kind](seed, STATES_PER_SEED)
    campaign.run()
    return campaign.looked_at


def main(states: int, first_seed: int) -> None:
    wanted = -(-states // STATES_PER_SEED)
    jobs = [(kind, seed) for seed in range(first_seed, first_seed + wanted) for kind in CAMPAIGNS][:wanted]
    started, looked_at = monotonic(), 0
    with ProcessPoolExecutor(cpu_count()) as pool:
        for (kind, seed), count in zip(jobs, pool.map(_run, jobs), strict=True):
            looked_at += count
            rate = looked_at / (monotonic() - started)
            sys.stdout.write(f"{kind}, seed {seed}: {looked_at} of {states} states, {rate:.0f} a second\n")
            sys.stdout.flush()
    sys.stdout.write(f"{looked_at} crash states, every promise kept\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
