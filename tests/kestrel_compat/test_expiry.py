"""What the numbers of the two protocols mean as times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.kestrel_compat.expiry import ABSOLUTE_FROM_S, expiry_ms, lifetime_expiry_ms

NOW_MS = 1_700_000_000_123
I32 = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("expiry_s", "expected_ms"),
    [
        (0, None),
        (1, NOW_MS + 1000),
        (999_999, NOW_MS + 999_999_000),
        (1_000_000, 1_000_000_000),
        (1_800_000_000, 1_800_000_000_000),
        (2**31 - 1, (2**31 - 1) * 1000),
        (-1, NOW_MS - 1000),
        # 68 years before now is before the epoch, where 0 would mean never.
        (-(2**31), 1),
    ],
)
def test_memcache_expiry(expiry_s: int, expected_ms: int | None) -> None:
    assert expiry_ms(expiry_s, NOW_MS) == expected_ms


@pytest.mark.parametrize(
    ("lifetime_ms", "expected_ms"),
    [(None, None), (0, NOW_MS), (1, NOW_MS + 1), (-1, NOW_MS - 1), (2_000_000, NOW_MS + 2_000_000)],
)
def test_text_expiry(lifetime_ms: int | None, expected_ms: int | None) -> None:
    assert lifetime_expiry_ms(lifetime_ms, NOW_MS) == expected_ms


def test_a_text_expiry_before_the_epoch_is_not_never() -> None:
    assert lifetime_expiry_ms(-5, 5) == 1


@given(I32, st.integers(10**12, 10**13))
def test_negative_is_expired_and_small_is_not(expiry_s: int, now_ms: int) -> None:
    expiry = expiry_ms(expiry_s, now_ms)
    if expiry_s < 0:
        assert expiry is not None
        assert expiry < now_ms
    elif expiry_s < ABSOLUTE_FROM_S:
        assert expiry is None or expiry > now_ms
    assert expiry is None or expiry > 0
