"""A directory of groups on the real disk, the ways to harm it, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, Commit, Event, MarkInflight, Release
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import RealDisk
from barbicel.stroma import GroupKey, GroupStore
from barbicel.stroma.layout import GroupFiles, StoreLayout
from barbicel.stroma.recovery import plan_group
from barbicel.stroma.state import GroupState
from tests.cli.support import document, flip, run

BILLING = GroupKey("orders", 3, "billing")
AUDIT = GroupKey("orders", 3, "audit")
MAIL = GroupKey("letters", 0, "mail")
LONG = GroupKey("orders", 4, "ü" * 120)
KEYS = (MAIL, AUDIT, BILLING, LONG)
# In the snapshot, then in the delta behind it.
OLD: list[Event] = [BumpAckedUntil(10), MarkInflight(10, 1_700_000_000_000, 1), Ack(12)]
NEW: list[Event] = [Ack(10), Ack(14), Ack(15), MarkInflight(16, NO_DEADLINE_MS, 2), Release(17, 3)]
# All that was ever acked of BILLING.
ACKED = {*range(11), 12, 14, 15}
HARM = b"KE\0\1 and no more"


def build_groups(path: Path) -> Path:
    """BILLING has a snapshot and a delta, MAIL a commit, the others one ack each."""
    with GroupStore.open(str(path)) as store:
        store.record(BILLING, OLD)
        store.compact(BILLING)
        store.record(BILLING, NEW)
        store.record(MAIL, [Commit(7, 4, "nœud".encode())])
        store.record(AUDIT, [Ack(0)])
        store.record(LONG, [Ack(0)])
    return path


def files(groups: Path, key: GroupKey = BILLING) -> GroupFiles:
    return StoreLayout(str(groups)).files(key)


def snap(groups: Path, key: GroupKey = BILLING) -> Path:
    return Path(files(groups, key).snapshot)


def delta(groups: Path, key: GroupKey = BILLING) -> Path:
    return Path(files(groups, key).delta)


def name(groups: Path) -> Path:
    return Path(files(groups, LONG).name)


def state(groups: Path, key: GroupKey = BILLING) -> GroupState:
    plan = plan_group(RealDisk(), files(groups, key), key)
    assert plan.damage is None
    return plan.state()


def acked(groups: Path, key: GroupKey = BILLING) -> set[int]:
    found = state(groups, key)
    return {offset for offset in range(100) if found.is_acked(offset)}


def told(groups: Path, *arguments: str, verb: str = "verify") -> dict[str, Any]:
    result: dict[str, Any] = document(run("group", verb, groups, "--json", *arguments))
    return result


def told_group(groups: Path, key: GroupKey, *arguments: str) -> dict[str, Any]:
    (found,) = [
        item
        for item in told(groups, *arguments, verb="inspect")["groups"]
        if (item["topic"], item["partition"], item["group"]) == key
    ]
    return dict(found)


# --- harm -----------------------------------------------------------------------------------------


def nothing(groups: Path) -> None:
    pass


def add_foreign(groups: Path) -> None:
    (groups / "notes [bold]\n.txt").write_bytes(b"mine")
    (groups / "orders-03_x.delta").write_bytes(b"a name that the rule would not have produced")
    (groups / "orders-3_directory.snap").mkdir()


def tear(groups: Path) -> None:
    with delta(groups).open("ab") as file:
        file.write(HARM)


def leave_void(groups: Path) -> None:
    """As a crash between the snapshot and the new delta does."""
    old = delta(groups).read_bytes()
    with GroupStore.open(str(groups)) as store:
        store.compact(BILLING)
    delta(groups).write_bytes(old)


def remove_delta(groups: Path) -> None:
    delta(groups).unlink()


def flip_in_snapshot(groups: Path) -> None:
    flip(snap(groups), 80)


def flip_in_snapshot_and_tear(groups: Path) -> None:
    flip_in_snapshot(groups)
    tear(groups)


def remove_snapshot(groups: Path) -> None:
    snap(groups).unlink()


def flip_in_delta_header(groups: Path) -> None:
    flip(delta(groups), 20)


def cut_delta_header(groups: Path) -> None:
    delta(groups).write_bytes(delta(groups).read_bytes()[:30])


def swap_snapshot(groups: Path) -> None:
    """That of another group."""
    with GroupStore.open(str(groups)) as store:
        store.compact(AUDIT)
    snap(groups).write_bytes(snap(groups, AUDIT).read_bytes())


# harm, exit code of verify, what of BILLING is acked after a repair, how many files are kept, what is said
CASES: list[tuple[Callable[[Path], None], int, set[int], int, str]] = [
    (nothing, 0, ACKED, 0, "4 groups: 4 sound. Sound."),
    (add_foreign, 0, ACKED, 0, r"Not part of any group notes [bold]\n.txt orders-03_x.delta orders-3_dir"),
    (tear, 1, ACKED, 1, "orders-3_billing.delta: torn at byte 196, 16 bytes: an event of"),
    (leave_void, 1, ACKED, 0, "orders-3_billing.delta: void, the snapshot has all of it"),
    (remove_delta, 1, {*range(10), 12}, 0, "-> begin a new orders-3_billing.delta"),
    (flip_in_snapshot, 3, {10, 14, 15}, 2, "orders-3_billing.snap: at byte"),
    (flip_in_snapshot_and_tear, 3, {10, 14, 15}, 2, "acked_until before: not known, after: 0 and 3 offsets"),
    (remove_snapshot, 3, {10, 14, 15}, 1, "continues a snapshot of generation 1, which is missing"),
    (flip_in_delta_header, 3, ACKED, 2, "orders-3_billing.delta: at byte 56: the header's crc32c"),
    (cut_delta_header, 3, set(), 2, "acked_until before: not known, after: 0"),
    (swap_snapshot, 3, {10, 14, 15}, 2, "the snapshot is that of another group"),
]
EACH_CASE = pytest.mark.parametrize(
    ("harm", "exit_code", "left", "kept", "text"), CASES, ids=[case[0].__name__ for case in CASES]
)
Harm = Callable[[Path], None]
