"""Quotas are no more than a server can look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.disk import RealDisk
from barbicel.gateway.access import quota_file
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.quota_file import QuotaFile
from barbicel.gateway.broker.topic_errors import InvalidRequest

KEY = "producer_byte_rate"


def test_there_are_never_too_many_and_those_that_go_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    layout = AccessLayout(str(tmp_path))
    kept = QuotaFile(RealDisk(), layout)
    entities = [(("client-id", str(number)),) for number in range(4)]
    kept.change({entity: {KEY: 1.0} for entity in entities[:2]})
    monkeypatch.setattr(quota_file, "MAX_QUOTAS", 2)
    for ask in (kept.change, kept.changed):
        with pytest.raises(InvalidRequest, match="more than 2 quotas"):
            ask({entities[2]: {KEY: 1.0}})
    assert list(kept.changed({entities[0]: {KEY: None}, entities[3]: {KEY: 2.0}})) == [
        entities[1],
        entities[3],
    ]
    assert kept.change({entity: {KEY: None} for entity in entities}) == {}
