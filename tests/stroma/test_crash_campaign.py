"""The short version of `make crash`: 8,400 crash states of groups, every promise kept in each of them."""

from __future__ import annotations

import pytest

from tests.crash.group_campaign import GroupCampaign

STATES_PER_SEED = 2_100


@pytest.mark.parametrize("seed", range(4))
def test_no_crash_breaks_a_promise(seed: int) -> None:
    campaign = GroupCampaign(seed, STATES_PER_SEED)
    campaign.run()
    assert campaign.looked_at == STATES_PER_SEED
    # Every kind of call that changes something was the moment of a crash.
    assert campaign.by_operation.keys() >= {"create", "write", "fdatasync", "rename", "fsync", "unlink"}
