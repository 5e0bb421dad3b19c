"""The short version of `make crash`: 20,800 crash states, every promise kept in each of them."""

from __future__ import annotations

import pytest

from tests.crash.campaign import Campaign

STATES_PER_SEED = 2_600


@pytest.mark.parametrize("seed", range(8))
def test_no_crash_breaks_a_promise(seed: int) -> None:
    campaign = Campaign(seed, STATES_PER_SEED)
    campaign.run()
    assert campaign.looked_at == STATES_PER_SEED
    # Every kind of call that changes something was the moment of a crash.
    assert campaign.by_operation.keys() >= {"create", "write", "fdatasync", "rename", "fsync", "truncate"}
