"""The cache of blocks and indexes: its budget, its order, and one load for many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from barbicel.tier.cache import ByteCache

WAIT_SECONDS = 10


def cache_of(max_bytes: int, **kept: Callable[[bytes], bool]) -> ByteCache[bytes]:
    return ByteCache(max_bytes, len, **kept)


def never() -> bytes:
    raise AssertionError("it is in the cache")


class Broken(Exception):
    pass


def fail() -> bytes:
    raise Broken


def test_second_get_loads_nothing() -> None:
    cache = cache_of(10)
    assert cache.get("a", lambda: b"abc") == b"abc"
    assert cache.get("a", never) == b"abc"
    assert (cache.hits, cache.misses, cache.held_bytes) == (1, 1, 3)


def test_longest_unused_goes_first() -> None:
    cache = cache_of(10)
    for key in "abc":
        cache.get(key, lambda: b"123")
    cache.get("a", never)
    cache.get("d", lambda: b"123")
    assert [key for key in "abcd" if cache.peek(key)] == ["a", "c", "d"]
    assert (cache.evictions, cache.held_bytes) == (1, 9)


def test_one_large_value_pushes_out_many() -> None:
    cache = cache_of(10)
    for key in "abc":
        cache.get(key, lambda: b"123")
    cache.get("d", lambda: bytes(10))
    assert (cache.evictions, cache.held_bytes) == (3, 10)


def test_value_larger_than_the_cache_is_not_kept_and_pushes_nothing_out() -> None:
    cache = cache_of(10)
    cache.get("a", lambda: b"123")
    assert cache.get("b", lambda: bytes(11)) == bytes(11)
    assert cache.peek("b") is None
    assert cache.peek("a") == b"123"


def test_value_that_is_not_to_be_kept() -> None:
    cache = cache_of(10, is_kept=lambda value: value != b"bad")
    assert cache.get("a", lambda: b"bad") == b"bad"
    assert cache.get("a", lambda: b"new") == b"new"
    assert cache.get("a", never) == b"new"


def test_error_is_passed_on_and_not_kept() -> None:
    cache = cache_of(10)
    with pytest.raises(Broken):
        cache.get("a", fail)
    assert cache.get("a", lambda: b"now") == b"now"
    assert cache.failures == 1


def test_what_is_found_counts_as_used_and_what_is_peeked_at_does_not() -> None:
    cache = cache_of(6)
    cache.put("a", b"123")
    cache.put("b", b"123")
    assert cache.find("a") == b"123"
    assert cache.find("c") is None
    cache.put("c", b"123")
    assert [key for key in "abc" if cache.peek(key)] == ["a", "c"]
    assert cache.peek("a") == b"123"
    cache.put("d", b"123")
    assert cache.peek("a") is None


def test_put_replaces_and_counts_once() -> None:
    cache = cache_of(10)
    cache.put("a", b"12345")
    cache.put("a", b"123")
    assert (cache.get("a", never), cache.held_bytes) == (b"123", 3)


def test_drop() -> None:
    cache = cache_of(10)
    cache.put("a", b"12345")
    cache.drop("a")
    cache.drop("a")
    assert cache.held_bytes == 0
    assert cache.get("a", lambda: b"new") == b"new"


def run_threads(number: int, work: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


class Gate:
    """A load that has begun waits here until it may end."""

    def __init__(self, end: Callable[[], bytes]) -> None:
        self.loads = 0
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self._end = end

    def load(self) -> bytes:
        self.loads += 1
        self.has_begun.set()
        assert self.may_end.wait(WAIT_SECONDS)
        return self._end()


def await_joins(cache: ByteCache[bytes], number: int) -> None:
    for _ in range(WAIT_SECONDS * 1000):
        if cache.joins == number:
            return
        threading.Event().wait(0.001)
    raise AssertionError(f"{cache.joins} of {number} threads wait")


@pytest.mark.parametrize("is_good", [True, False])
def test_one_load_for_any_number_of_threads(is_good: bool) -> None:
    cache, gate = cache_of(10), Gate((lambda: b"abc") if is_good else fail)
    results: list[bytes | type[BaseException]] = []

    def work() -> None:
        try:
            results.append(cache.get("a", gate.load))
        except Broken as error:
            results.append(type(error))

    threads = run_threads(8, work)
    await_joins(cache, 7)
    gate.may_end.set()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert gate.loads == 1
    assert results == [b"abc" if is_good else Broken] * 8
    assert cache.is_coming("a") is is_good


def test_other_keys_do_not_wait() -> None:
    cache, gate = cache_of(10), Gate(lambda: b"abc")
    (thread,) = run_threads(1, lambda: cache.get("a", gate.load))
    assert gate.has_begun.wait(WAIT_SECONDS)
    assert cache.get("b", lambda: b"b") == b"b"
    assert cache.is_coming("a")
    assert not cache.is_coming("c")
    gate.may_end.set()
    thread.join(WAIT_SECONDS)


def test_what_is_dropped_while_it_is_loaded_is_not_kept() -> None:
    cache, gate = cache_of(10), Gate(lambda: b"old")
    found: list[bytes] = []
    (thread,) = run_threads(1, lambda: found.append(cache.get("a", gate.load)))
    assert gate.has_begun.wait(WAIT_SECONDS)
    cache.drop("a")
    gate.may_end.set()
    thread.join(WAIT_SECONDS)
    assert found == [b"old"]
    assert cache.get("a", lambda: b"new") == b"new"


def test_many_threads_never_exceed_the_budget() -> None:
    cache = cache_of(100)
    worst: list[int] = []

    def work() -> None:
        for number in range(400):
            key = number * 7 % 23
            assert cache.get(key, lambda key=key: bytes([key]) * 20)[0] == key  # type: ignore[misc]
            worst.append(cache.held_bytes)

    for thread in run_threads(6, work):
        thread.join(WAIT_SECONDS)
    assert len(worst) == 2400
    assert max(worst) <= 120  # a moment's look, without the lock, while one is added
    assert cache.held_bytes <= 100
