"""Reading settings again: queues change, the server waits for a restart."""

from __future__ import annotations

from barbicel.config import Config
from barbicel.config.queue_tables import QueueTables
from barbicel.config.reloading import take_reload


def test_queues_change_at_once_and_other_settings_after_a_restart() -> None:
    running = Config(kestrel_port=1, num_partitions=2)
    tables = QueueTables(default={"max_items": 1}, aliases={"a": ("b",)})
    reloaded = take_reload(running, Config(kestrel_port=5, num_partitions=2, kestrel_queues=tables))
    assert reloaded.config.kestrel_queues == tables
    assert reloaded.config.kestrel_port == 1
    assert reloaded.needs_restart == ("kestrel.port",)


def test_nothing_new_changes_nothing() -> None:
    assert take_reload(Config(), Config()) == (Config(), ())
