"""When an item expires: what the two protocols say of it.

Every time here is in milliseconds since the epoch and None means never. Such a time is at least 1, because
a 0 stands for "never" in Kestrel's journals.
"""

from __future__ import annotations

__all__ = ["ABSOLUTE_FROM_S", "expiry_ms", "lifetime_expiry_ms"]

# Kestrel's bound, and not memcached's 30 days: below it a number is seconds from now, from it on a date.
ABSOLUTE_FROM_S = 1_000_000

_EARLIEST_MS = 1


def expiry_ms(expiry_s: int, now_ms: int) -> int | None:
    """What the third argument of a memcache `set` means. A negative one has passed already."""
    if not expiry_s:
        return None
    start_ms = now_ms if expiry_s < ABSOLUTE_FROM_S else 0
    return max(_EARLIEST_MS, start_ms + expiry_s * 1000)


def lifetime_expiry_ms(lifetime_ms: int | None, now_ms: int) -> int | None:
    """What the second argument of a text `put` means: always from now, and 0 is now, not never."""
    return None if lifetime_ms is None else max(_EARLIEST_MS, now_ms + lifetime_ms)
