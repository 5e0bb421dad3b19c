"""`barbicel verify-import`: whether all that is in journals is in the target. Changes nothing in either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from barbicel.cli.import_journals import (
    TargetOptions,
    describe_doubts,
    doubt_lines,
    found_journals,
    journal_options,
    named,
    opened_target,
)
from barbicel.cli.page import Page, number_table, render_json
from barbicel.gateway.migration.source import JournalSource
from barbicel.gateway.migration.verify import FamilyVerdict, Verdict, verify_family
from barbicel.gateway.migration.watch import watching
from barbicel.kestrel_compat.journals.queue import Doubt

__all__ = ["verify_import"]

EXIT_CODES = {Verdict.COMPLETE: 0, Verdict.READ: 1, Verdict.INCOMPLETE: 3}
EXIT_DOUBTS = 1
DIGEST_CHARS = 16
DOUBTFUL = " This is as far as the journals can be read."

_ENDINGS = {
    Verdict.COMPLETE: "Complete: every item is there, once and in order, and none was read yet.",
    Verdict.READ: "Every item was imported, and some have been read or have expired since.",
    Verdict.INCOMPLETE: "Not complete.",
}


@click.command("verify-import")
@journal_options
@click.pass_context
def verify_import(
    ctx: click.Context,
    source: str,
    queues: Sequence[str],
    data: str | None,
    bootstrap: str | None,
    kestrel: str | None,
    client_file: str | None,
    path: str | None,
    as_json: bool,
) -> None:
    """Compare the journals in SOURCE with what was imported: counts, order, and a digest of the contents.

    \b
    Example:
      barbicel verify-import /var/spool/kestrel --bootstrap localhost:9092

    \b
    Exit codes, the highest that applies:
      0  complete
      1  complete, but something has been read since, or a journal is doubtful
      2  wrong usage, or SOURCE or the target cannot be used
      3  not complete
    """
    journals = found_journals(source, queues)
    options = TargetOptions(data, bootstrap, kestrel, client_file, path)
    sizes_bytes = [family.size_bytes for family in journals.families]
    with (
        watching("comparing", sizes_bytes, is_quiet=as_json) as watch,
        opened_target(options, may_create=False) as target,
    ):
        completed = target.completed()
        verdicts = [verify_family(journals, family, target, completed, watch) for family in journals.families]
    found = [one.verdict for one in verdicts] + [Verdict.INCOMPLETE for _ in journals.missing]
    overall = max(found, key=list(Verdict).index)
    if as_json:
        render_json(_describe(journals, verdicts, overall))
    else:
        _tell(Page(), journals, verdicts, overall)
    ctx.exit(max(EXIT_CODES[overall], EXIT_DOUBTS if _doubts(journals, verdicts) else 0))


def _doubts(journals: JournalSource, verdicts: Sequence[FamilyVerdict]) -> list[Doubt]:
    """What no comparison can find: it is not among what was read of the journals."""
    found = [*journals.doubts, *(doubt for one in verdicts for doubt in one.doubts)]
    return [doubt for doubt in found if not doubt.is_harmless and not doubt.is_missing]


def _describe(
    journals: JournalSource, verdicts: Sequence[FamilyVerdict], overall: Verdict
) -> dict[str, object]:
    return {
        "source": journals.directory,
        "verdict": overall.value,
        "doubts": describe_doubts(journals.doubts),
        "queues": [{**asdict(one), "doubts": describe_doubts(one.doubts)} for one in verdicts],
    }


def _tell(page: Page, journals: JournalSource, verdicts: Sequence[FamilyVerdict], overall: Verdict) -> None:
    page.line(f"Journals {journals.directory}")
    lines = [line for one in verdicts for line in one.lines]
    rows = [
        (
            line.queue,
            line.journal_items,
            line.target_items,
            line.read_items,
            line.journal_digest[:DIGEST_CHARS],
            line.target_digest[:DIGEST_CHARS],
            line.verdict.value,
        )
        for line in lines
    ]
    if rows:
        columns = ("queue", "in journals", "in target", "read", "digest", "in target ", "verdict")
        page.table("Queues", number_table(columns, rows, words=("queue", "verdict")))
    problems = [named(one.master, one.problem) for one in verdicts if one.problem]
    page.section("Not there", [*problems, *doubt_lines(journals.missing)])
    page.section("First differences", [f"{one.queue}: {one.difference}" for one in lines if one.difference])
    doubts = _doubts(journals, verdicts)
    page.section("Doubtful in the journals, which no comparison can settle", doubt_lines(doubts))
    page.ending(_ENDINGS[overall] + (DOUBTFUL if doubts else ""))
