"""How the log commands tell what they found: as one JSON document, or as text for people.

Paths are told relative to the log's directory, so that they mean the same in a copy of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.table import Table

from barbicel.cli.log_findings import Findings, Verdict, has_open_end
from barbicel.cli.offsets import OffsetRange, counted, number_of_offsets, range_lines
from barbicel.cli.page import Page, number_table
from barbicel.errors import offsets_text
from barbicel.keratin.plan import Damage, RecoveryPlan, SegmentPlan, Torn

__all__ = [
    "actions",
    "describe_damage",
    "describe_findings",
    "describe_ranges",
    "in_use_text",
    "loss_lines",
    "problems",
    "relative",
    "segment_table",
    "tell",
    "tell_findings",
    "tell_title",
    "verdict_text",
]


def relative(plan: RecoveryPlan, text: str) -> str:
    """The text with the log's directory taken off every path in it."""
    return re.sub(rf"(?<!\S){re.escape(plan.layout.root)}/", "", text)


# --- as JSON --------------------------------------------------------------------------------------


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
        "actions": actions(plan),
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


def tell(page: Page, findings: Findings) -> None:
    """All that `verify` has to say."""
    tell_title(page, findings)
    tell_findings(page, findings)
    page.ending(verdict_text(findings))


def tell_findings(page: Page, findings: Findings) -> None:
    """What is wrong with a log, what is there besides, and what a repair would do. Each loss is told once."""
    plan = findings.plan
    misplaced = {path for path, _ in findings.misplaced}
    page.section("What is wrong", problems(plan))
    page.section("Lost", loss_lines(plan, findings.lost))
    if not plan.apart:  # with files of two logs a repair does nothing
        page.section("A repair would", actions(plan))
    page.section(
        "Not part of the log", [relative(plan, path) for path in plan.foreign if path not in misplaced]
    )
    page.section(
        "Perhaps under a wrong name: rename before a repair",
        [f"{relative(plan, path)}: its header says base offset {base}" for path, base in findings.misplaced],
    )
    page.section("Kept aside by earlier repairs", [relative(plan, path) for path in findings.asides])


def loss_lines(plan: RecoveryPlan, lost: Iterable[OffsetRange]) -> list[str]:
    """These offsets, and those of which nobody knows."""
    return range_lines(lost) + [
        f"whatever was appended from offset {item.end_offset} on" for item in plan.damage if item.open_ended
    ]


def actions(plan: RecoveryPlan) -> list[str]:
    """What carrying out the plan does, a line each. The reasons, behind the colons, are told as problems."""
    return [relative(plan, line).partition(": ")[0] for line in plan.actions if not line.startswith(" ")]


def problems(plan: RecoveryPlan) -> list[str]:
    """What is wrong with a log, a line each; which offsets that costs is told elsewhere."""
    lines = [line for segment in plan.segments for line in _segment_problems(plan, segment)]
    lines += [_damage_text(plan, item) for item in (*plan.overlaps, *plan.apart)]
    if plan.manifest_problem is not None:
        lines.append(relative(plan, plan.manifest_problem))
    else:
        lines += _manifest_mismatch(plan)
    return lines + [f"{relative(plan, path)}: left behind by retention" for path in plan.leftovers]


def _manifest_mismatch(plan: RecoveryPlan) -> Iterable[str]:
    manifest = plan.manifest
    if manifest is None or plan.manifest_is_current:
        return
    if manifest.next_offset != plan.next_offset:
        yield (
            f"manifest.bin vouches for offsets below {manifest.next_offset}, "
            f"the log's next offset is {plan.next_offset}"
        )
    elif not plan.damage:  # otherwise it follows from the damage
        yield "manifest.bin does not list the segments as they are"


def _segment_problems(plan: RecoveryPlan, segment: SegmentPlan) -> Iterable[str]:
    name = relative(plan, plan.layout.log(segment.base_offset))
    for item in segment.damage:
        yield _damage_text(plan, item)
    if segment.file_bytes is None and not segment.damage:
        yield f"{name}: the file is missing; it held no records"
    if segment.torn is not None:
        torn = segment.torn
        size = counted(torn.end_position - torn.position, "byte")
        yield f"{name}: torn at byte {torn.position}, {size}: {torn.reason}"
        for run in torn.whole_records:
            yield f"  behind it whole records of {offsets_text(run.first_offset, run.end_offset)}"
    elif segment.has_excess and not segment.damage and segment is not plan.segments[-1]:
        yield f"{name}: zeros behind the last record, from byte {segment.end_position} on"
    if segment.reindex is not None and not segment.damage:  # otherwise it follows from the damage
        yield f"{name}, indexes: {relative(plan, segment.reindex)}"


def _damage_text(plan: RecoveryPlan, damage: Damage) -> str:
    where = "" if damage.position is None else f" at byte {damage.position}"
    is_loss = damage.open_ended or damage.first_offset < damage.end_offset
    unharmed = "" if is_loss else "; no offset is lost"
    return f"{relative(plan, damage.path)}{where}: {damage.reason}{unharmed}"


def verdict_text(findings: Findings) -> str:
    """What it comes to, and what to do."""
    if findings.verdict is Verdict.SOUND:
        depth = "every record was read" if findings.plan.deep else "--deep would read every record"
        return f"Sound ({depth})."
    if findings.verdict is Verdict.RECOVERABLE:
        if findings.holder is not None:
            return "No offset is lost. This is usual while a log is in use."
        if any(segment.torn is not None and segment.torn.whole_records for segment in findings.plan.segments):
            return (
                "Opening the log for writing cuts whole records off with what is torn, and keeps them aside:"
                " they were not known to be synced."
            )
        return "No offset is lost. Opening the log for writing does what is to be done by itself."
    if findings.plan.apart:
        return (
            "Files of another log lie here. Move them away and look again; before that nothing is repaired."
        )
    more = " or more" if has_open_end(findings.plan) else ""
    if not findings.lost and not more:
        return "No offset is lost, but files are damaged: see 'barbicel log repair'."
    number = counted(number_of_offsets(findings.lost), "offset")
    return (
        f"Lost in all: {number}{more}. 'barbicel log repair' gives up what is lost, "
        "'barbicel log recover' saves the rest into a new directory."
    )
