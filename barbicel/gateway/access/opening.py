"""How a broker comes to its access control: with the server where it is needed, or when it is asked for.

Nothing of it is imported before: a server on which everybody may do everything starts as if it were not
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barbicel.gateway.access.access_layout import needs_access

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access
    from barbicel.gateway.broker.broker import Broker

__all__ = ["open_access_if_needed", "opened_access"]


def open_access_if_needed(broker: Broker) -> Access | None:
    """At the start. Waits for the disk. Raises BarbicelError."""
    is_needed = needs_access(broker.disk, broker.data_directory, broker.config)
    return opened_access(broker) if is_needed else None


def opened_access(broker: Broker) -> Access:
    """For a request that is about users or quotas, on whatever server."""
    if broker.access is None:
        from barbicel.gateway.access.access import Access

        broker.access = Access(
            broker.disk, broker.data_directory, broker.config, broker.reactor, broker.clock
        )
    return broker.access
