"""The memcache protocol as tables: what serves each request, and which may be under way together.

docs/kestrel.md says where an answer is not Kestrel's.
"""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.gateway.kestrel.item_commands import (
    Aborting,
    Closing,
    Confirming,
    MonitoringItems,
    Opening,
    Peeking,
    Reopening,
    Storing,
    Taking,
)
from barbicel.gateway.kestrel.server_commands import (
    ChangingStatus,
    Deleting,
    DumpingStats,
    Flushing,
    FlushingAll,
    FlushingAllExpired,
    FlushingExpired,
    Listing,
    Quitting,
    Refusing,
    Reloading,
    ShuttingDown,
    TellingStats,
    TellingVersion,
)
from barbicel.gateway.kestrel.serving import Kind, Plan
from barbicel.kestrel_compat.memcache.requests import (
    Bad,
    Confirm,
    Delete,
    DumpStats,
    Flush,
    FlushAll,
    FlushAllExpired,
    FlushExpired,
    Get,
    ListQueues,
    Monitor,
    Quit,
    Reload,
    Request,
    Set,
    Shutdown,
    Stats,
    Status,
    Version,
)

__all__ = ["GET_PLANS", "PLANS", "plan_of"]

PLANS: Mapping[type, Plan] = {
    Set: Plan(Kind.SETS, Storing),
    Delete: Plan(Kind.ALONE, Deleting),
    Flush: Plan(Kind.ALONE, Flushing),
    FlushAll: Plan(Kind.ALONE, FlushingAll),
    FlushExpired: Plan(Kind.ALONE, FlushingExpired),
    FlushAllExpired: Plan(Kind.ALONE, FlushingAllExpired),
    Stats: Plan(Kind.ALONE, TellingStats),
    DumpStats: Plan(Kind.ALONE, DumpingStats),
    ListQueues: Plan(Kind.ALONE, Listing),
    Monitor: Plan(Kind.ALONE, MonitoringItems),
    Confirm: Plan(Kind.CLOSES, Confirming),
    Reload: Plan(Kind.ALONE, Reloading),
    Version: Plan(Kind.ALONE, TellingVersion),
    Status: Plan(Kind.ALONE, ChangingStatus),
    Quit: Plan(Kind.ALONE, Quitting),
    Shutdown: Plan(Kind.ALONE, ShuttingDown),
    Bad: Plan(Kind.ALONE, Refusing),
}

# (open, close, abort, peek) → the plan. Every other combination is Bad, which the reader says.
GET_PLANS: Mapping[tuple[bool, bool, bool, bool], Plan] = {
    (False, False, False, False): Plan(Kind.TAKES, Taking),
    (False, False, False, True): Plan(Kind.TAKES, Peeking),
    (True, False, False, False): Plan(Kind.OPENS, Opening),
    (True, True, False, False): Plan(Kind.ALONE, Reopening),
    (False, True, False, False): Plan(Kind.CLOSES, Closing),
    (False, False, True, False): Plan(Kind.CLOSES, Aborting),
}


def plan_of(request: Request) -> Plan:
    if isinstance(request, Get):
        return GET_PLANS[request.is_open, request.is_close, request.is_abort, request.is_peek]
    return PLANS[type(request)]
