"""Which settings hold for a queue: defaults, master, child, and aliases."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from barbicel.config.queue_tables import QueueTables
from barbicel.kestrel_compat.queue_settings import QUEUE_SETTINGS, QueueSettings, SettingsBook


def test_the_table_and_the_fields_are_one() -> None:
    assert [row.attribute for row in QUEUE_SETTINGS.values()] == [one.name for one in fields(QueueSettings)]
    for name, row in QUEUE_SETTINGS.items():
        snake = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
        assert row.attribute in (snake, f"{snake}_ms", f"{snake}_bytes")


@pytest.mark.parametrize("name", QUEUE_SETTINGS)
def test_a_default_is_allowed_and_survives_its_text(name: str) -> None:
    row = QUEUE_SETTINGS[name]
    assert getattr(QueueSettings(), row.attribute) == row.default
    assert row.rule.check(row.default) == row.default
    assert row.rule.parse(row.rule.render(row.default)) == row.default
    assert row.doc.endswith(".")


def test_defaults_are_those_of_kestrel() -> None:
    settings = SettingsBook().for_queue("anything")
    assert settings == QueueSettings()
    assert settings.max_items is settings.max_size_bytes is settings.max_item_size_bytes is None
    assert settings.max_age_ms is settings.max_queue_age_ms is settings.open_transaction_timeout_ms is None
    assert not settings.discard_old_when_full
    assert not settings.fanout_only
    assert settings.default_journal_size_bytes == 16 << 20
    assert settings.max_journal_size_bytes == 1 << 30
    assert settings.keep_journal


def test_only_journals_have_settings_without_effect() -> None:
    without = {name for name, row in QUEUE_SETTINGS.items() if not row.has_effect}
    assert without == {"keepJournal", "syncJournal", "maxJournalSize"}


def test_a_child_inherits_from_its_master_and_that_from_the_default() -> None:
    book = SettingsBook(
        QueueTables(
            default={"max_items": 1, "max_age_ms": 1, "delivery_limit": 1},
            queues={
                "q": {"max_age_ms": 2, "delivery_limit": 2},
                "q+a": {"delivery_limit": 3},
                "lone+a": {"delivery_limit": 4, "max_items": None},
                "q+a+b": {"max_items": 5},
            },
        )
    )

    def held(name: str) -> tuple[int | None, int | None, int]:
        found = book.for_queue(name)
        return found.max_items, found.max_age_ms, found.delivery_limit

    assert held("other") == held("other+x") == held("lone") == held("lone+b") == (1, 1, 1)
    assert held("q") == held("q+b") == held("q+") == (1, 2, 2)
    assert held("q+a") == (1, 2, 3)
    assert held("lone+a") == (None, 1, 4)
    # 'q+a+b' is a child of q, not of q+a.
    assert held("q+a+b") == (5, 2, 2)
    # '+q' is a queue of its own.
    assert held("+q") == (1, 1, 1)


@pytest.mark.parametrize(
    "tables",
    [
        QueueTables(queues={"q": {"fanout_only": True}}),
        QueueTables(default={"fanout_only": True}),
        QueueTables(queues={"q": {"fanout_only": True}, "q+a": {"fanout_only": True, "max_items": 1}}),
    ],
)
def test_fanout_only_speaks_of_the_master_itself(tables: QueueTables) -> None:
    book = SettingsBook(tables)
    assert book.for_queue("q").fanout_only
    assert not book.for_queue("q+a").fanout_only
    assert not book.for_queue("q+b").fanout_only


def test_no_text_makes_a_lookup_fail_or_grows_the_book() -> None:
    book = SettingsBook(QueueTables(aliases={"all": ("a", "b")}))
    for name in ("", "+", "a.b", "a b", "\u0100", *map(str, range(10_000))):
        assert book.for_queue(name) == QueueSettings()
    assert book.aliases == {"all": ("a", "b")}
