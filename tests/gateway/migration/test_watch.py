"""What somebody at a terminal sees of an import."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from barbicel.gateway.migration.watch import _Bars, _columns


def bars_of(*sizes_bytes: int) -> tuple[Progress, _Bars]:
    console = Console(file=io.StringIO(), width=120)
    progress = Progress(*_columns(), console=console, auto_refresh=False)
    return progress, _Bars(progress, "importing", sizes_bytes)


def seen(progress: Progress) -> list[tuple[str, float, float | None]]:
    return [(task.description, task.completed, task.total) for task in progress.tasks if task.visible]


def test_one_queue_is_one_bar() -> None:
    progress, bars = bars_of(100)
    bars.replaying("q", 100)
    bars.replayed(60)
    assert seen(progress) == [("reading q", 60, 100)]
    bars.importing("q", 4)
    bars.imported(3)
    assert seen(progress) == [("importing q", 3, 4)]


def test_of_several_queues_the_whole_is_shown_too() -> None:
    progress, bars = bars_of(100, 50, 10)
    bars.replaying("a", 100)
    bars.importing("a", 4)
    bars.imported(3)
    assert seen(progress) == [("all queues", 75, 160), ("importing a", 3, 4)]
    bars.replaying("empty", 50)
    bars.importing("empty", 0)
    bars.replaying("c", 10)
    assert seen(progress) == [("all queues", 150, 160), ("reading c", 0, 10)]
    bars.importing("c", 3)
    for _ in range(3):
        bars.imported(1)
    assert seen(progress)[0] == ("all queues", 159, 160)
