"""`barbicel import-journals`: Kestrel's queues into a data directory or a running gateway.

Also what its two relatives share with it: the options, and the target that they ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import click

from barbicel.cli.client_file import client_config_option, client_settings
from barbicel.cli.offsets import counted
from barbicel.cli.options import directory_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.settings import config_option, data_option, loaded_config, parse_address
from barbicel.clock import wall_clock_ms
from barbicel.disk import RealDisk
from barbicel.gateway.migration.importing import (
    FamilyOutcome,
    ImportRules,
    Outcome,
    import_family,
    plan_family,
)
from barbicel.gateway.migration.source import JournalSource, NoSuchQueue, open_source
from barbicel.gateway.migration.target import Target
from barbicel.gateway.migration.watch import Watch, watching
from barbicel.kestrel_compat.journals.queue import Doubt

__all__ = [
    "TargetOptions",
    "client_config_option",
    "config_option",
    "data_option",
    "describe_doubts",
    "describe_import",
    "doubt_lines",
    "found_journals",
    "import_exit_code",
    "import_journals",
    "journal_options",
    "loaded_config",
    "named",
    "opened_target",
    "parse_address",
    "queue_option",
    "tell_import",
]

EXIT_DOUBTS = 1
EXIT_INCOMPLETE = 3
KESTREL_PORT = 22133
KEEP_OPEN_SECONDS = 3600

queue_option = click.option(
    "--queue", "queues", metavar="NAME", multiple=True, help="Only this queue and its children; repeatable."
)

_JOURNAL_OPTIONS = (
    click.argument("source", metavar="SOURCE", callback=directory_name),
    queue_option,
    data_option,
    click.option("--bootstrap", metavar="HOST:PORT", help="A running gateway, by its Kafka port."),
    click.option(
        "--kestrel", metavar="HOST:PORT", help=f"The gateway's Kestrel port; default: {KESTREL_PORT} there."
    ),
    client_config_option,
    config_option,
    json_option,
)


def journal_options(command: Callable[..., None]) -> Callable[..., None]:
    """What takes a directory of journals and a target."""
    for option in reversed(_JOURNAL_OPTIONS):
        command = option(command)
    return command


def found_journals(source: str, queues: Sequence[str]) -> JournalSource:
    """Raises NoSuchQueue if there are none: whoever mistypes a path would be told that all of it is there."""
    journals = open_source(RealDisk(), source, queues)
    if not journals.families:
        raise NoSuchQueue("there are no journals here", path=source)
    return journals


# --- the target -----------------------------------------------------------------------------------------


class TargetOptions(NamedTuple):
    """What a command was told of its target, as it was told."""

    data: str | None = None
    bootstrap: str | None = None
    kestrel: str | None = None
    client_file: str | None = None
    path: str | None = None
    # Where the journals are.
    source: str | None = None


def opened_target(options: TargetOptions, *, may_create: bool) -> Target:
    if options.bootstrap is None:
        return _opened_directory(options, may_create)
    if options.data is not None:
        raise click.UsageError("the target is --data or --bootstrap, not both")
    from barbicel.gateway.migration.gateway_target import GatewayTarget

    host, port = parse_address("--bootstrap", options.bootstrap)
    kestrel = (host, KESTREL_PORT)
    if options.kestrel is not None:
        kestrel = parse_address("--kestrel", options.kestrel)
    return GatewayTarget.open((host, port), kestrel, client_settings(options.client_file))


def _opened_directory(options: TargetOptions, may_create: bool) -> Target:
    for name, value in (("--kestrel", options.kestrel), ("--client-config", options.client_file)):
        if value is not None:
            raise click.UsageError(f"{name} goes with --bootstrap")
    from barbicel.gateway.migration.directory_target import DirectoryTarget, check_apart

    config = loaded_config(options.path)
    directory = options.data or config.data_directory
    if options.source is not None:
        check_apart(RealDisk(), options.source, directory)
    return DirectoryTarget.open(RealDisk(), directory, config=config, may_create=may_create)


# --- the verb -------------------------------------------------------------------------------------------


@click.command("import-journals")
@journal_options
@click.option("--dry-run", is_flag=True, help="Only tell what is in the journals; no target is looked at.")
@click.option("--again", is_flag=True, help="Import though these journals were imported before they changed.")
@click.option("--keep-open", is_flag=True, help="Leave open reads open; without this they are at the head.")
@click.option(
    "--keep-open-seconds",
    type=click.IntRange(1),
    default=KEEP_OPEN_SECONDS,
    show_default=True,
    help="For how long.",
)
@click.pass_context
def import_journals(
    ctx: click.Context,
    source: str,
    queues: Sequence[str],
    data: str | None,
    bootstrap: str | None,
    kestrel: str | None,
    client_file: str | None,
    path: str | None,
    as_json: bool,
    dry_run: bool,
    again: bool,
    keep_open: bool,
    keep_open_seconds: int,
) -> None:
    """Bring the queues in SOURCE, a directory of Kestrel's journals, over.

    Each item is imported exactly once: after a crash, a kill or an error, run the same command again.
    Journals that were imported completely are not imported again. A queue and its fanout children become
    one log.

    \b
    Examples:
      barbicel import-journals /var/spool/kestrel --dry-run
      barbicel import-journals /var/spool/kestrel --bootstrap localhost:9092
      barbicel import-journals /var/spool/kestrel --bootstrap gw:9093 --client-config me.conf

    \b
    Exit codes:
      0  all of it is imported
      1  imported, but something was skipped or is odd: see the list
      2  wrong usage, or SOURCE or the target cannot be used
      3  a queue was not imported
    """
    if keep_open and bootstrap is not None:
        raise click.UsageError("--keep-open needs --data: in a gateway an open read is a connection's")
    journals = found_journals(source, queues)
    deadline_ms = wall_clock_ms() + keep_open_seconds * 1000 if keep_open else None
    sizes_bytes = [family.size_bytes for family in journals.families]
    with watching("importing", sizes_bytes, is_quiet=as_json) as watch:
        if dry_run:
            outcomes = [plan_family(journals, family, watch) for family in journals.families]
        else:
            options = TargetOptions(data, bootstrap, kestrel, client_file, path, source)
            with opened_target(options, may_create=True) as target:
                outcomes = _import_all(journals, target, ImportRules(deadline_ms, again), watch)
    if as_json:
        render_json(describe_import(journals, outcomes))
    else:
        tell_import(Page(), journals, outcomes)
    ctx.exit(import_exit_code(journals, outcomes))


def _import_all(
    journals: JournalSource, target: Target, rules: ImportRules, watch: Watch
) -> list[FamilyOutcome]:
    completed = target.completed()
    return [import_family(journals, family, target, completed, rules, watch) for family in journals.families]


def import_exit_code(journals: JournalSource, outcomes: Sequence[FamilyOutcome]) -> int:
    if journals.missing or any(one.outcome in (Outcome.REFUSED, Outcome.FAILED) for one in outcomes):
        return EXIT_INCOMPLETE
    in_doubt = any(one.is_in_doubt for one in outcomes)
    return EXIT_DOUBTS if in_doubt or any(not doubt.is_harmless for doubt in journals.doubts) else 0


# --- the report -----------------------------------------------------------------------------------------


def describe_doubts(doubts: Iterable[Doubt]) -> list[dict[str, object]]:
    return [
        {**doubt._asdict(), "kind": doubt.kind.value, "is_harmless": doubt.is_harmless} for doubt in doubts
    ]


def doubt_lines(doubts: Iterable[Doubt]) -> list[str]:
    return [f"{doubt.file}, byte {doubt.position}: {doubt.what} ({doubt.kind.value})" for doubt in doubts]


def describe_import(journals: JournalSource, outcomes: Sequence[FamilyOutcome]) -> dict[str, object]:
    return {
        "source": journals.directory,
        "doubts": describe_doubts(journals.doubts),
        "queues": [
            {
                **asdict(one),
                "outcome": one.outcome.value,
                "lines": [line._asdict() for line in one.lines],
                "doubts": describe_doubts(one.doubts),
                "skipped": [skipped._asdict() for skipped in one.skipped],
            }
            for one in outcomes
        ],
    }


def named(queue: str, problem: str) -> str:
    """A target may have named it already."""
    return problem if problem.startswith(f"{queue}: ") else f"{queue}: {problem}"


def tell_import(page: Page, journals: JournalSource, outcomes: Sequence[FamilyOutcome]) -> None:
    page.line(f"Journals {journals.directory}")
    rows = [
        (line.queue, line.items, line.open_reads, line.operations, line.bytes, one.outcome.value)
        for one in outcomes
        for line in one.lines
    ]
    if rows:
        columns = ("queue", "items", "open", "operations", "journal bytes", "outcome")
        page.table("Queues", number_table(columns, rows, words=("queue", "outcome")))
    already = [one.master for one in outcomes if one.outcome is Outcome.ALREADY]
    page.section("Already imported, nothing was done", already)
    problems = [named(one.master, one.problem) for one in outcomes if one.problem]
    page.section("Not imported", [*problems, *doubt_lines(journals.missing)])
    skipped = [item for one in outcomes for item in one.skipped]
    page.section("Skipped", [f"{item.file}, byte {item.position}: {item.what}" for item in skipped])
    doubts = [*journals.doubts, *(doubt for one in outcomes for doubt in one.doubts)]
    doubtful = (doubt for doubt in doubts if not doubt.is_harmless and not doubt.is_missing)
    page.section("Doubtful", doubt_lines(doubtful))
    page.section("Left out, nothing is missing", doubt_lines(doubt for doubt in doubts if doubt.is_harmless))
    page.ending(_summary(outcomes))


def _summary(outcomes: Sequence[FamilyOutcome]) -> str:
    records = sum(one.records - one.records_before for one in outcomes)
    before = sum(one.records_before for one in outcomes)
    if any(one.outcome is Outcome.PLANNED for one in outcomes):
        return f"A dry run: {counted(records, 'record')} would be stored."
    done = sum(one.outcome is Outcome.IMPORTED for one in outcomes)
    earlier = f" An earlier run had stored {counted(before, 'record')}." if before else ""
    is_failed = any(one.outcome is Outcome.FAILED for one in outcomes)
    rest = " Run it again for the rest: it goes on behind what is stored." if is_failed else ""
    return f"Imported {counted(done, 'queue')}: {counted(records, 'record')} stored.{earlier}{rest}"
