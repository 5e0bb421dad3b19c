"""Quotas: whose counts, how long somebody waits, and what a rate comes to in the end."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barbicel.codecs.access_file import Entity, decode_quotas, encode_quotas
from barbicel.gateway.access.quotas import CONSUMED, MAX_METERS, PRODUCED, QuotaBook, entity_of

WINDOW_MS, WINDOWS = 1000, 11
# In the order of Kafka's documents, the first that there is counts.
ORDER: list[Entity] = [
    entity_of(user="u", client_id="c"),
    entity_of(user="u", client_id=None),
    entity_of(user="u"),
    entity_of(user=None, client_id="c"),
    entity_of(user=None, client_id=None),
    entity_of(user=None),
    entity_of(client_id="c"),
    entity_of(client_id=None),
]


def book(quotas: dict[Entity, dict[str, float]]) -> QuotaBook:
    return QuotaBook(quotas, WINDOW_MS, WINDOWS)


def is_limited(one: QuotaBook, limit: float, user: str = "u", client_id: str = "c") -> bool:
    """Whether this is the limit: just so much may be sent at once, at the beginning of a window."""
    allowed = limit * (WINDOWS - 1)
    return (
        one.throttle_ms(PRODUCED, user, client_id, allowed, 0) == 0
        and one.throttle_ms(PRODUCED, user, client_id, limit, 0) == 1000
    )


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_quota_counts(first: int) -> None:
    quotas = {entity: {PRODUCED: 100.0 + place} for place, entity in enumerate(ORDER) if place >= first}
    assert is_limited(book(quotas), 100.0 + first)


def test_nobody_else_is_limited() -> None:
    one = book({entity_of(user="v"): {PRODUCED: 1.0}, entity_of(user="u"): {CONSUMED: 1.0}})
    assert one.throttle_ms(PRODUCED, "u", "c", 1e9, 0) == 0


def test_who_shares_a_quota() -> None:
    one = book({entity_of(user=None): {PRODUCED: 100.0}})
    assert one.throttle_ms(PRODUCED, "u", "c", 1000, 0) == 0
    assert one.throttle_ms(PRODUCED, "u", "other client", 100, 0) == 1000
    assert one.throttle_ms(PRODUCED, "v", "c", 1000, 0) == 0  # has one of its own


@given(
    st.lists(st.tuples(st.integers(1, 50_000), st.integers(0, 3000)), min_size=1, max_size=60),
    st.integers(100, 100_000),
)
@example([(1, 0), (37_919, 3), (18_060, 0)], 1806)
def test_whoever_waits_as_long_as_it_is_told_keeps_to_twice_its_rate(
    sendings: list[tuple[int, int]], limit: int
) -> None:
    """As with Kafka: a burst may have all windows for itself, and is forgotten when they are over."""
    one = book({entity_of(user="u"): {PRODUCED: float(limit)}})
    now_ms = last_ms = sent = 0
    for amount, pause_ms in sendings:
        wait_ms = one.throttle_ms(PRODUCED, "u", "c", amount, now_ms)
        # A wait that would be longer than all windows is cut.
        sent += amount if wait_ms < WINDOW_MS * WINDOWS else 0
        last_ms = now_ms
        now_ms += wait_ms + pause_ms
    stretches = last_ms // (WINDOW_MS * (WINDOWS - 1)) + 1
    assert sent <= 2 * limit * WINDOWS * stretches


def test_a_wait_is_never_longer_than_all_windows() -> None:
    one = book({entity_of(user="u"): {PRODUCED: 1.0}})
    assert one.throttle_ms(PRODUCED, "u", "c", 1e12, 0) == WINDOW_MS * WINDOWS


def test_what_was_long_ago_is_forgotten() -> None:
    one = book({entity_of(user="u"): {PRODUCED: 100.0}})
    assert one.throttle_ms(PRODUCED, "u", "c", 5000, 0) > 0
    assert one.throttle_ms(PRODUCED, "u", "c", 1, WINDOW_MS * WINDOWS) == 0


def test_a_clock_that_is_set_back_makes_nobody_wait_for_it() -> None:
    one, late_ms = book({entity_of(user="u"): {PRODUCED: 1000.0}}), 3_600_000
    assert one.throttle_ms(PRODUCED, "u", "", 100_000, late_ms) > 0
    assert one.throttle_ms(PRODUCED, "u", "", 1, late_ms // 2) == 0
    assert one.throttle_ms(PRODUCED, "u", "", 100_000, late_ms // 2) > 0


def test_names_that_clients_make_up_do_not_fill_the_memory() -> None:
    one = book({entity_of(client_id=None): {PRODUCED: 100.0}})
    for number in range(MAX_METERS + 100):
        one.throttle_ms(PRODUCED, "u", str(number), 1, 0)
    assert len(one._meters) == MAX_METERS


def test_quotas_as_a_file() -> None:
    quotas = {entity: {PRODUCED: 1.5 + place} for place, entity in enumerate(ORDER)}
    assert decode_quotas(encode_quotas(quotas)) == quotas
