"""The states of a classic group and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["NEXT_STATES", "GroupState"]


class GroupState(Enum):
    """The values are the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"  # no members; some may have been given an id and not come back yet
    PREPARING_REBALANCE = "PreparingRebalance"  # waits for members to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # a generation, whose leader has not said who gets what
    STABLE = "Stable"  # everybody's assignment is known
    DEAD = "Dead"  # forgotten by the coordinator


NEXT_STATES: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset(),
}
