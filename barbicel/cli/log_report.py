"""How the log commands tell what they found: as one JSON document, or as text for people.

Paths are told relative to the log's directory, so that they mean the same in a copy of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from barbicel.cli.log_findings import Findings, OffsetRange, Verdict
from barbicel.keratin.plan import Damage, RecoveryPlan, SegmentPlan, Torn

__all__ = [
    "Page",
    "describe_damage",
    "describe_findings",
    "describe_ranges",
    "in_use_text",
    "log_directory",
    "number_table",
    "plain",
    "problems",
    "relative",
    "render_json",
    "segment_table",
    "tell_findings",
    "tell_title",
    "time_text",
    "verdict_text",
]


def log_directory(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The callback of an argument that names a log's directory: an empty one would mean the root's files."""
    if not value:
        raise click.BadParameter("the directory's name is empty", ctx, param)
    return value.rstrip("/") or "/"


def plain(text: str) -> str:
    """The text in printable characters: a file's name may hold anything."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def relative(plan: RecoveryPlan, text: str) -> str:
    """The text with the log's directory taken off every path in it."""
    return re.sub(rf"(?<!\S){re.escape(plan.layout.root)}/", "", text)


# --- as JSON --------------------------------------------------------------------------------------


def render_json(document: dict[str, object]) -> None:
    click.echo(json.dumps(document, indent=2))


def describe_findings(findings: Findings) -> dict[str, object]:
    """All of it, ready for JSON."""
    plan = findings.plan
    return {
        "path": plan.layout.root,
        "deep": plan.deep,
        "in_use_by": findings.holder,
        "verdict": findings.verdict.name.lower(),
        "manifest": _describe_manifest(plan),
        "manifest_problem": _relative_or_none(plan, plan.manifest_problem),
        "log_start_offset": plan.log_start_offset,
        "next_offset": plan.next_offset,
        "segments": [_describe_segment(plan, segment) for segment in plan.segments],
        "lost": describe_ranges(findings.lost),
        "damage": [describe_damage(plan, item) for item in plan.damage],
        "actions": [relative(plan, line) for line in plan.actions],
        "leftovers": [relative(plan, path) for path in plan.leftovers],
        "foreign": [relative(plan, path) for path in plan.foreign],
        "misplaced": [
            {"path": relative(plan, path), "header_base_offset": base} for path, base in findings.misplaced
        ],
        "kept_aside": [relative(plan, path) for path in findings.asides],
    }


def describe_ranges(ranges: Iterable[OffsetRange]) -> list[dict[str, int]]:
    return [item._asdict() for item in ranges]


def _describe_manifest(plan: RecoveryPlan) -> dict[str, object] | None:
    manifest = plan.manifest
    if manifest is None:
        return None
    return {
        "created_ts_ms": manifest.created_ts_ms,
        "segment_max_bytes": manifest.segment_max_bytes,
        "index_stride_bytes": manifest.index_stride_bytes,
        "max_open_segments": manifest.max_open_segments,
        "active_base_offset": manifest.active_base_offset,
        "next_offset": manifest.next_offset,
        "sealed_segments": len(manifest.segments),
        "log_start_offset": manifest.log_start_offset,
        "leader_epoch": manifest.leader_epoch,
        "clean_shutdown": manifest.clean_shutdown,
    }


def _describe_segment(plan: RecoveryPlan, segment: SegmentPlan) -> dict[str, object]:
    return {
        "base_offset": segment.base_offset,
        "end_offset": segment.end_offset,
        "bytes": segment.end_position,
        "file_bytes": segment.file_bytes,
        "index_bytes": segment.idx_bytes,
        "file_present": segment.file_bytes is not None,
        "state": _state(plan, segment),
        "torn": None if segment.torn is None else _describe_torn(segment.torn),
        "index_problem": _relative_or_none(plan, segment.reindex),
    }


def _state(plan: RecoveryPlan, segment: SegmentPlan) -> str:
    return "active" if segment is plan.segments[-1] else "sealed"


def _describe_torn(torn: Torn) -> dict[str, object]:
    return {
        "position": torn.position,
        "end_position": torn.end_position,
        "reason": torn.reason,
        "whole_records": describe_ranges(
            OffsetRange(run.first_offset, run.end_offset) for run in torn.whole_records
        ),
    }


def describe_damage(plan: RecoveryPlan, damage: Damage) -> dict[str, object]:
    return {**damage._asdict(), "path": relative(plan, damage.path)}


def _relative_or_none(plan: RecoveryPlan, text: str | None) -> str | None:
    return None if text is None else relative(plan, text)


# --- as text --------------------------------------------------------------------------------------


class Page:
    """Text on the standard output: wrapped between words, as wide as the terminal, 80 columns elsewhere."""

    def __init__(self) -> None:
        self._console = Console(markup=False, emoji=False, highlight=False)

    def line(self, text: str) -> None:
        """A line that is never broken, so that a long path in it can be copied."""
        self._console.print(Text(plain(text)), soft_wrap=True)

    def paragraph(self, text: str) -> None:
        self._console.print(Text(plain(text)))

    def section(self, title: str, lines: Sequence[str]) -> None:
        """Nothing if there are no lines."""
        if lines:
            self._title(title)
        for line in lines:
            self._console.print(Padding(Text(plain(line)), (0, 0, 0, 2), expand=False))

    def show(self, title: str, content: RenderableType) -> None:
        self._title(title)
        self._console.print(Padding(content, (0, 0, 0, 2), expand=False))

    def _title(self, title: str) -> None:
        self._console.print()
        self._console.print(Text(title, style="bold"))


def number_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], words: Sequence[str] = ()
) -> Table:
    """Numbers stand right; the columns named in `words` stand left. A value of None is a dash."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if value is None else str(value)) for value in row))
    return table


def segment_table(plan: RecoveryPlan) -> Table:
    return number_table(
        ("base offset", "end offset", "bytes", "index bytes", "file", "state"),
        (
            (
                segment.base_offset,
                segment.end_offset,
                None if segment.file_bytes is None else segment.end_position,
                None if segment.file_bytes is None else segment.idx_bytes,
                "missing" if segment.file_bytes is None else "present",
                _state(plan, segment),
            )
            for segment in plan.segments
        ),
        words=("file", "state"),
    )


def tell_title(page: Page, findings: Findings) -> None:
    page.line(f"Log {findings.plan.layout.root}")
    if findings.holder is not None:
        page.paragraph(in_use_text(findings.holder))


def in_use_text(holder: str) -> str:
    process = "another process" if holder == "unknown" else f"process {holder}"
    return f"In use by {process}; the tail may move."


def tell_findings(page: Page, findings: Findings) -> None:
    """What is wrong with a log, what is there besides, and what a repair would do."""
    plan = findings.plan
    page.section("What is wrong", problems(plan))
    page.section("A repair would", [relative(plan, line) for line in plan.actions])
    page.section("Not part of the log", [relative(plan, path) for path in plan.foreign])
    page.section(
        "Perhaps under a wrong name: rename before a repair",
        [f"{relative(plan, path)}: its header says base offset {base}" for path, base in findings.misplaced],
    )
    page.section("Kept aside by earlier repairs", [relative(plan, path) for path in findings.asides])


def problems(plan: RecoveryPlan) -> list[str]:
    """What is wrong with a log, a line each."""
    lines = [line for segment in plan.segments for line in _segment_problems(plan, segment)]
    lines += [_damage_text(plan, item) for item in plan.overlaps]
    if plan.manifest_problem is not None:
        lines.append(relative(plan, plan.manifest_problem))
    elif plan.manifest is not None and not plan.manifest_is_current:
        vouched, end = plan.manifest.next_offset, plan.next_offset
        lines.append(
            "manifest.bin does not list the segments as they are"
            if vouched == end
            else f"manifest.bin vouches for offsets below {vouched}, the log's next offset is {end}"
        )
    lines += [f"{relative(plan, path)}: left behind by retention" for path in plan.leftovers]
    return lines


def _segment_problems(plan: RecoveryPlan, segment: SegmentPlan) -> Iterable[str]:
    name = relative(plan, plan.layout.log(segment.base_offset))
    for item in segment.damage:
        yield _damage_text(plan, item)
    if segment.file_bytes is None and not segment.damage:
        yield f"{name}: the file is missing; it held no records"
    if segment.torn is not None:
        torn = segment.torn
        size = torn.end_position - torn.position
        yield f"{name}: torn at byte {torn.position}, {size} bytes: {torn.reason}"
        for run in torn.whole_records:
            yield f"  behind it whole records of offsets {OffsetRange(run.first_offset, run.end_offset)}"
    if segment.reindex is not None:
        yield f"{name}, indexes: {relative(plan, segment.reindex)}"


def _damage_text(plan: RecoveryPlan, damage: Damage) -> str:
    where = "" if damage.position is None else f" at byte {damage.position}"
    lost = OffsetRange(damage.first_offset, damage.end_offset)
    what = f"lost: {lost}" if lost.first_offset < lost.end_offset else "no offset is lost"
    return f"{relative(plan, damage.path)}{where}: {damage.reason}; {what}"


def verdict_text(findings: Findings) -> str:
    if findings.verdict is Verdict.SOUND:
        depth = "every record was read" if findings.plan.deep else "--deep would read every record"
        return f"Sound ({depth})."
    if findings.verdict is Verdict.RECOVERABLE:
        if findings.holder is not None:
            return "No offset is lost. This is usual while a log is in use."
        return "No offset is lost. Opening the log for writing does what is to be done by itself."
    if not findings.lost:
        return "No offset is lost, but files are damaged: see 'barbicel log repair'."
    lost = ", ".join(map(str, findings.lost))
    return f"Lost offsets: {lost}. See 'barbicel log repair' and 'barbicel log recover'."


def time_text(timestamp_ms: int | None) -> str:
    """A timestamp for people, in UTC."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"  # any 64-bit number is allowed, a calendar ends earlier
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"
