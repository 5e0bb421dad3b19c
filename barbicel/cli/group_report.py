"""How the group commands tell what they found: as one JSON document, or as text for people.

Paths are told relative to the directory of groups, so that they mean the same in a copy of it.
"""

from __future__ import annotations

import re
from collections import Counter

from barbicel.cli.group_findings import Finding, Findings, Summary, Verdict
from barbicel.cli.offsets import counted
from barbicel.cli.page import Page
from barbicel.stroma.recovery import TornDelta

__all__ = [
    "actions",
    "describe_findings",
    "describe_redelivery",
    "name_of",
    "problems",
    "redelivery",
    "relative",
    "tell",
    "tell_findings",
    "tell_title",
    "verdict_text",
]


def relative(findings: Findings, text: str) -> str:
    """The text with the directory taken off every path in it."""
    return re.sub(rf"(?<!\S){re.escape(findings.root)}/", "", text)


def name_of(finding: Finding) -> str:
    topic, partition, group = finding.key
    return f"{group!r} of {topic}-{partition}"


# --- one group in words ---------------------------------------------------------------------------


def problems(finding: Finding) -> list[str]:
    """What is wrong with a group, a line each."""
    files, torn = finding.files, finding.torn
    lines = [text for text in (finding.unreadable, finding.damage) if text is not None]
    if torn is not None:
        lines.append(f"{finding.delta_path}: torn at byte {torn.position}, {_size(torn)}: {torn.reason}")
        if torn.whole_events:
            lines.append(f"  behind it whole events: {torn.whole_events}")
    if finding.is_delta_void:
        rest = f" but its last {counted(finding.events, 'event')}" if finding.events else ""
        lines.append(f"{finding.delta_path}: void, the snapshot has all of it{rest}")
    if finding.is_delta_missing:
        lines.append(f"{files.delta}: missing, as after an interrupted deletion")
    if not finding.has_name:
        lines.append(f"{files.name}: missing or wrong, so the group is not found when groups are listed")
    return lines


def actions(finding: Finding) -> list[str]:
    """What opening the group or a repair would do, a line each."""
    files, torn, lines = finding.files, finding.torn, []
    if not finding.has_name:
        lines.append(f"write {files.name}")
    if finding.rebuilt is not None:
        lines.append(f"copy {files.stem}.snap and .delta, as far as they are there, to .corrupt-<ms>")
        lines.append(f"rebuild {files.snapshot}")
        lines.append(f"begin a new {files.delta}")
    elif torn is not None:
        lines.append(f"cut {finding.delta_path} at byte {torn.position}, {_size(torn)} kept as .torn-<ms>")
    elif finding.needs_recovery:
        lines.append(f"begin a new {files.delta}")
    return lines


def _size(torn: TornDelta) -> str:
    return counted(torn.end_position - torn.position, "byte")


def redelivery(finding: Finding) -> str | None:
    """What consumers will see again once the group is mended; None if nothing is done about it."""
    if finding.rebuilt is not None:
        before = "not known" if finding.known_until is None else str(finding.known_until)
        after = finding.rebuilt
        beyond = f" and {counted(after.acked_offsets, 'offset')} beyond it" if after.acked_offsets else ""
        committed = "; acked_until counts as committed" if after.is_committed else ""
        return (
            f"acked_until before: {before}, after: {after.acked_until}{beyond}; "
            f"everything else is delivered again{committed}"
        )
    if finding.torn is not None:
        return f"acked_until stays {finding.known_until}; what only the torn bytes acked is delivered again"
    if finding.is_delta_missing:
        return f"acked_until stays {finding.known_until}; what only the lost delta acked is delivered again"
    if finding.is_delta_void:
        return f"acked_until stays {finding.known_until}; nothing is delivered again"
    return None


# --- as JSON --------------------------------------------------------------------------------------


def describe_findings(findings: Findings) -> dict[str, object]:
    """All of it, ready for JSON."""
    return {
        "path": findings.root,
        "in_use_by": findings.holder,
        "verdict": findings.verdict.name.lower(),
        "groups": [_describe_group(findings, finding) for finding in findings.groups],
        "unnamed": [relative(findings, path) for path in findings.unnamed],
        "foreign": [relative(findings, path) for path in findings.foreign],
        "kept_aside": [relative(findings, path) for path in findings.asides],
    }


def _describe_group(findings: Findings, finding: Finding) -> dict[str, object]:
    return {
        **finding.key._asdict(),
        "files": finding.files.stem,
        "verdict": finding.verdict.name.lower(),
        "state": None if finding.state is None else _describe_state(finding.state),
        "after_repair": None if finding.rebuilt is None else _describe_state(finding.rebuilt),
        "generation": finding.generation,
        "snapshot_bytes": finding.snapshot_bytes,
        "delta_bytes": finding.delta_bytes,
        "delta_events": finding.events,
        "torn": None if finding.torn is None else finding.torn._asdict(),
        "delta_is_void": finding.is_delta_void,
        "damage": None if finding.damage is None else relative(findings, finding.damage),
        "problems": [relative(findings, line.strip()) for line in problems(finding)],
        "actions": [relative(findings, line) for line in actions(finding)],
    }


def _describe_state(state: Summary) -> dict[str, object]:
    """Metadata is a client's own bytes: those that are no UTF-8 are escaped."""
    document = state._asdict()
    sample = document.pop("sample")
    if state.metadata is not None:
        document["metadata"] = state.metadata.decode("utf-8", "backslashreplace")
    if sample is not None:
        document["first_ranges"] = [
            {"first_offset": start, "end_offset": end} for start, end in sample.ranges
        ]
        document["first_inflight"] = [
            {"offset": offset, **entry._asdict()} for offset, entry in sample.inflight
        ]
        document["first_releases"] = [{"offset": offset, "epoch": epoch} for offset, epoch in sample.releases]
    return document


def describe_redelivery(finding: Finding) -> dict[str, object]:
    after = finding.rebuilt or finding.state
    return {
        **finding.key._asdict(),
        "acked_until_before": finding.known_until,
        "acked_until_after": None if after is None else after.acked_until,
        "text": redelivery(finding),
    }


# --- as text --------------------------------------------------------------------------------------


def tell_title(page: Page, findings: Findings) -> None:
    page.line(f"Groups in {findings.root}")
    if findings.holder is not None:
        process = "another process" if findings.holder == "unknown" else f"process {findings.holder}"
        page.paragraph(f"In use by {process}; what is told may have changed.")


def tell(page: Page, findings: Findings) -> None:
    """All that `verify` has to say."""
    tell_title(page, findings)
    tell_findings(page, findings)
    page.ending(verdict_text(findings))


def tell_findings(page: Page, findings: Findings) -> None:
    """What is wrong with which group, what a repair would do, and what is there besides."""
    for finding in findings.groups:
        if finding.verdict is Verdict.SOUND:
            continue
        lines = problems(finding)
        again = redelivery(finding)
        lines += [f"-> {line}" for line in (*actions(finding), *([] if again is None else [again]))]
        page.section(
            f"{name_of(finding)}: {finding.verdict.name.lower()}",
            [relative(findings, line) for line in lines],
        )
    tell_others(page, findings)


def tell_others(page: Page, findings: Findings) -> None:
    page.section(
        "Nobody's, as the .name file is missing or wrong: name the group in full to have that repaired",
        [relative(findings, path) for path in findings.unnamed],
    )
    page.section("Not part of any group", [relative(findings, path) for path in findings.foreign])
    page.section(
        "Kept aside by recovery and earlier repairs", [relative(findings, path) for path in findings.asides]
    )


_VERDICT_TEXTS = {
    Verdict.SOUND: "Sound.",
    Verdict.RECOVERABLE: "Opening the groups for use does what is to be done by itself.",
    Verdict.UNREADABLE: "Some files cannot be read; they are left alone.",
    Verdict.DAMAGED: "Groups are damaged and cannot be used as they are: see 'barbicel group repair'.",
}


def verdict_text(findings: Findings) -> str:
    counts = Counter(finding.verdict for finding in findings.groups)
    parts = [f"{counts[verdict]} {verdict.name.lower()}" for verdict in Verdict if counts[verdict]]
    groups = f"{counted(len(findings.groups), 'group')}{': ' if parts else ''}{', '.join(parts)}."
    if findings.verdict is Verdict.RECOVERABLE and findings.holder is not None:
        return f"{groups} This is usual while groups are in use."
    return f"{groups} {_VERDICT_TEXTS[findings.verdict]}"
