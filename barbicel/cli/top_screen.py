"""What `top` shows: a snapshot of the server in tables. Pure: from what the server told to what is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from barbicel.cli.admin import Admin
from barbicel.cli.amounts import bytes_text, count_text, duration_text
from barbicel.cli.plain import plain

__all__ = ["Snapshot", "render", "take_snapshot"]

# More than fits a screen; of more topics than this the busiest may not be among those that are told.
MAX_ROWS = 1000
FULL_RATIO = 0.9


class Snapshot(NamedTuple):
    overview: dict[str, Any]
    topics: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    groups: list[dict[str, Any]]


def take_snapshot(admin: Admin) -> Snapshot:
    """Raises NoServer, ServerRefused."""
    overview = admin.json("/api/overview")
    lists = {name: admin.json(f"/api/{name}?limit={MAX_ROWS}")[name] for name in ("topics", "groups")}
    queues = admin.json(f"/api/queues?limit={MAX_ROWS}")["queues"] if overview["counts"]["queues"] else []
    return Snapshot(overview, lists["topics"], queues, lists["groups"])


def render(snapshot: Snapshot, rows: int) -> RenderableType:
    """With so many rows for all three tables together."""
    topics = sorted(snapshot.topics, key=_busyness, reverse=True)
    queues = sorted(snapshot.queues, key=lambda queue: (-_stat(queue, "items"), queue["name"]))
    groups = [group for group in snapshot.groups if group["kind"] == "kafka"]
    groups.sort(key=lambda group: (-(group["lag"] or 0), group["name"]))
    shares = _share(rows, (len(topics), len(queues), len(groups)))
    parts: list[RenderableType] = [_head(snapshot.overview)]
    for table in (
        _topic_table(topics[: shares[0]], len(topics)),
        _queue_table(queues[: shares[1]], len(queues)),
        _group_table(groups[: shares[2]], len(groups)),
    ):
        if table.row_count:
            parts += [table, ""]
    return Group(*parts)


def _busyness(topic: Mapping[str, Any]) -> tuple[float, float, int]:
    rates = topic["rates"]
    return rates["bytes_in"] + rates["bytes_out"], rates["messages_in"], topic["size_bytes"]


def _stat(queue: Mapping[str, Any], name: str) -> int:
    return int((queue["stats"] or {}).get(name) or 0)


def _share(rows: int, wanted: Sequence[int]) -> list[int]:
    """Equal shares; what one does not need goes to the others."""
    given = [0] * len(wanted)
    left = max(rows, len(wanted))
    while left and any(have < want for have, want in zip(given, wanted, strict=True)):
        for index, want in enumerate(wanted):
            if left and given[index] < want:
                given[index] += 1
                left -= 1
    return given


# --- the head -------------------------------------------------------------------------------------------


def _head(overview: Mapping[str, Any]) -> RenderableType:
    counts, rates, storage = overview["counts"], overview["rates"], overview["storage"]
    syncs = [_ms_text(overview["durability"][name]) for name in ("fsync_median_s", "fsync_p99_s")]
    grid = Table.grid(padding=(0, 3, 0, 0))
    for cells in (
        (
            f"in {count_text(rates['messages_in'])} msg/s, {bytes_text(rates['bytes_in'])}/s",
            f"out {bytes_text(rates['bytes_out'])}/s",
            f"{count_text(counts['clients'])} clients",
        ),
        (
            f"data {bytes_text(storage['data_bytes'])}",
            f"disk {_disk_text(storage)}",
            f"memory {bytes_text(storage['memory_bytes'])}",
        ),
        (
            f"{count_text(counts['topics'])} topics, {count_text(counts['messages'])} messages",
            f"fsync {syncs[0]}, p99 {syncs[1]}",
            f"loop lag {_ms_text(overview['reactor_lag_s'])}",
        ),
    ):
        grid.add_row(*cells)
    problems = [Text(plain(problem), style="bold red") for problem in overview["problems"]]
    state = "ready" if overview["is_ready"] else "NOT READY"
    title = f"barbicel {overview['version']}, {state}, up {duration_text(overview['uptime_s'])}"
    return Panel(Group(grid, *problems), title=Text(title), title_align="left", box=box.SQUARE)


def _disk_text(storage: Mapping[str, Any]) -> str:
    total, free = storage["disk_total_bytes"], storage["disk_free_bytes"]
    if total is None or free is None:
        return "-"
    mark = "!" if free < total * (1 - FULL_RATIO) else ""
    return f"{bytes_text(free)} free of {bytes_text(total)}{mark}"


def _ms_text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


# --- the tables -----------------------------------------------------------------------------------------


def _table(title: str, shown: int, total: int, columns: Sequence[str]) -> Table:
    more = f", {shown} of {total}" if shown < total else ""
    table = Table(
        title=f"{title}{more}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        expand=True,
        title_style="bold",
    )
    table.add_column(columns[0], overflow="ellipsis", no_wrap=True, ratio=1)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _topic_table(topics: Sequence[Mapping[str, Any]], total: int) -> Table:
    table = _table(
        "Topics", len(topics), total, ("topic", "msg/s in", "in/s", "out/s", "messages", "size", "")
    )
    for topic in topics:
        rates = topic["rates"]
        table.add_row(
            Text(plain(topic["name"])),
            count_text(rates["messages_in"]),
            bytes_text(rates["bytes_in"]),
            bytes_text(rates["bytes_out"]),
            count_text(topic["messages"]),
            bytes_text(topic["size_bytes"]),
            Text("not writable", style="bold red") if topic["not_writable"] else "",
        )
    return table


def _queue_table(queues: Sequence[Mapping[str, Any]], total: int) -> Table:
    table = _table(
        "Queues", len(queues), total, ("queue", "msg/s in", "items", "size", "open", "waiting", "age")
    )
    for queue in queues:
        table.add_row(
            Text(plain(queue["name"])),
            count_text(queue["rates"]["messages_in"]),
            count_text(_stat(queue, "items")),
            bytes_text(_stat(queue, "bytes")),
            count_text(_stat(queue, "open_transactions")),
            count_text(_stat(queue, "waiters")),
            duration_text(_stat(queue, "age_ms") / 1000),
        )
    return table


def _group_table(groups: Sequence[Mapping[str, Any]], total: int) -> Table:
    table = _table("Groups", len(groups), total, ("group", "state", "members", "topics", "lag"))
    for group in groups:
        table.add_row(
            Text(plain(group["name"])),
            group["state"],
            count_text(group["members"]),
            count_text(group["topics"]),
            count_text(group["lag"]),
        )
    return table
