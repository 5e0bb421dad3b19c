"""The short version of `make crash`: 2,400 crash states of a manifest stream, every promise kept in each."""

from __future__ import annotations

import pytest

from tests.crash.manifest_campaign import ManifestCampaign

STATES_PER_SEED = 600


@pytest.mark.parametrize("seed", range(4))
def test_no_crash_breaks_a_promise(seed: int) -> None:
    campaign = ManifestCampaign(seed, STATES_PER_SEED)
    campaign.run()
    assert campaign.looked_at == STATES_PER_SEED
    # Every kind of call that changes something was the moment of a crash.
    assert campaign.by_operation.keys() >= {
        "create",
        "preallocate",
        "write",
        "fdatasync",
        "rename",
        "fsync",
        "truncate",
    }
