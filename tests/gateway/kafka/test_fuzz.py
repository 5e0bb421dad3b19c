"""Garbage and mutated requests through a connection: an answer or a closed connection, and nothing stored.

`python -m tests.gateway.kafka.fuzz N` does the same for N rounds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.kafka.fuzz import Target, mutated_requests

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with Target.opened(tmp_path_factory.mktemp("fuzz")) as target:
        yield target


@QUICK
@given(st.lists(st.binary(max_size=300), max_size=4))
def test_random_bytes(target: Target, chunks: list[bytes]) -> None:
    target.attack(chunks)


@QUICK
@given(st.binary(min_size=8, max_size=200), st.sampled_from(range(95)), st.integers(-1, 20))
def test_random_bodies_of_every_api(target: Target, tail: bytes, api_key: int, version: int) -> None:
    target.attack_with_body(api_key, version, tail)


@QUICK
@given(mutated_requests())
def test_mutated_requests(target: Target, stream: bytes) -> None:
    target.attack([stream])


def test_an_unhandled_error_would_be_seen(tmp_path: Path) -> None:
    with Target.opened(tmp_path) as target:
        logging.getLogger("barbicel").error("something went wrong")
        with pytest.raises(AssertionError, match="something went wrong"):
            target.attack([b""])
