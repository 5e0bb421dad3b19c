"""The gateway answers as Apache Kafka does, but for what is listed and justified."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import NOTE
from tests.differential.conftest import Comparisons
from tests.differential.conversations import CONVERSATIONS
from tests.differential.differences import DIFFERENCES, explanation


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_answers_are_those_of_kafka(comparisons: Comparisons, name: str) -> None:
    unexplained = [found for found in comparisons.of(name) if explanation(found) is None]
    assert not unexplained, f"{len(unexplained)} differences:\n" + "\n".join(map(str, unexplained[:50]))


def test_every_listed_difference_is_there(
    comparisons: Comparisons, record_property: Callable[[str, object], None]
) -> None:
    record_property(NOTE, f"the gateway was compared with an Apache Kafka from {comparisons.chosen}")
    found = (difference for name in CONVERSATIONS for difference in comparisons.of(name))
    seen = {row for row in map(explanation, found) if row is not None}
    for row in (row for row in DIFFERENCES if row in seen):
        record_property(NOTE, f"a difference: {row.api}: {row.what}. {row.why}")
    stale = [f"{row.api}: {row.what}" for row in DIFFERENCES if row not in seen]
    assert not stale, "these no longer differ, or another row explains them:\n" + "\n".join(stale)
