"""`barbicel pipeline import-journals`: many queues at once, with the importer's own code in each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from barbicel.cli.import_journals import (
    EXIT_INCOMPLETE,
    TargetOptions,
    client_config_option,
    config_option,
    data_option,
    describe_doubts,
    describe_import,
    doubt_lines,
    found_journals,
    import_exit_code,
    loaded_config,
    opened_target,
    queue_option,
    tell_import,
)
from barbicel.cli.offsets import counted
from barbicel.cli.options import directory_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.pipeline_options import opened_session, spark_options
from barbicel.disk import RealDisk, remove_tree
from barbicel.errors import BarbicelError
from barbicel.gateway.migration.importing import (
    FamilyOutcome,
    ImportRules,
    Outcome,
    import_family,
    plan_family,
)
from barbicel.gateway.migration.source import JournalSource, open_source
from barbicel.gateway.migration.watch import Quiet

if TYPE_CHECKING:
    from barbicel.pipeline.jobs.import_journals import Journals, LineReport
    from barbicel.pipeline.session import Session

__all__ = ["import_journals", "into_directory"]

EXIT_DOUBTS = 1


@click.command("import-journals")
@click.argument("source", metavar="SOURCE", callback=directory_name)
@queue_option
@data_option
@click.option("--bootstrap", metavar="HOST:PORT", help="A running gateway, by its Kafka port.")
@click.option("--kestrel", metavar="HOST:PORT", help="The gateway's Kestrel port; default: 22133 there.")
@click.option("--parquet", metavar="DIR", callback=directory_name, help="A new directory of Parquet files.")
@click.option("--kfs", metavar="URL", help="An object store: .kfs segments and a manifest.")
@click.option("--namespace", metavar="NAME", default="imported", show_default=True, help="In that store.")
@click.option(
    "--staging",
    metavar="DIR",
    default="/tmp/barbicel-import",
    show_default=True,
    callback=directory_name,
    help="With --kfs: where each worker keeps what it is about to upload.",
)
@click.option("--check", is_flag=True, help="With --parquet: read both again and compare their digests.")
@click.option("--again", is_flag=True, help="Import though these journals were imported before they changed.")
@client_config_option
@config_option
@spark_options
@json_option
@click.pass_context
def import_journals(
    ctx: click.Context,
    source: str,
    queues: Sequence[str],
    data: str | None,
    bootstrap: str | None,
    kestrel: str | None,
    parquet: str | None,
    kfs: str | None,
    namespace: str,
    staging: str,
    check: bool,
    again: bool,
    client_file: str | None,
    path: str | None,
    master: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Bring the queues in SOURCE, a directory of Kestrel's journals, over with Spark.

    The result is that of `barbicel import-journals`, which does one queue after the other; this does as many
    at once as Spark has cores. Every worker must reach SOURCE, the data directory, and the file of
    --client-config with the certificates that it names, under the same paths.
    Like that one it may be run again after anything that has stopped it.

    \b
    Example:
      barbicel pipeline import-journals /var/spool/kestrel --data ./data

    \b
    Exit codes:
      0  all of it is imported
      1  imported, but something was skipped or is odd: see the list
      2  wrong usage, or SOURCE or the target cannot be used
      3  a queue was not imported, or --check has found a difference
    """
    if sum(one is not None for one in (data, bootstrap, parquet, kfs)) > 1:
        raise click.UsageError("the target is one of --data, --bootstrap, --parquet and --kfs")
    if client_file is not None and bootstrap is None:
        raise click.UsageError("--client-config goes with --bootstrap")
    spark = opened_session("import-journals", master, settings)
    if parquet is not None:
        ctx.exit(_to_parquet(spark, source, queues, parquet, check, as_json))
    journals = found_journals(RealDisk().resolve(source), queues)
    rules = ImportRules(None, again)
    if kfs is not None:
        outcomes = _into_store(spark, journals, kfs, namespace, staging)
    elif bootstrap is not None:
        file = client_file and RealDisk().resolve(client_file)
        outcomes = _into_gateway(spark, journals, TargetOptions(None, bootstrap, kestrel, file), rules)
    else:
        outcomes = into_directory(spark, journals, data or loaded_config(path).data_directory, path, rules)
    if as_json:
        render_json(describe_import(journals, outcomes))
    else:
        tell_import(Page(), journals, outcomes)
    ctx.exit(import_exit_code(journals, outcomes))


# --- into a gateway -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _GatewayImport:
    """What a task does with a queue."""

    directory: str
    # Not what is in the file of client settings: a password has no place in what Spark passes around.
    gateway: TargetOptions
    rules: ImportRules

    def __call__(self, queue: str) -> FamilyOutcome:
        """What goes wrong is told with the queue: Spark would end all others, and show a traceback."""
        try:
            return self._import(queue)
        except BarbicelError as error:
            return FamilyOutcome(queue, "", Outcome.FAILED, problem=str(error))

    def _import(self, queue: str) -> FamilyOutcome:
        from barbicel.gateway.migration.patience import patiently

        journals = open_source(RealDisk(), self.directory, [queue])
        # The gateway may be restarted between two tasks as well.
        with patiently(lambda: opened_target(self.gateway, may_create=False)) as target:
            completed = target.completed()
            return import_family(journals, journals.families[0], target, completed, self.rules, Quiet())


def _into_gateway(
    spark: Session, journals: JournalSource, gateway: TargetOptions, rules: ImportRules
) -> list[FamilyOutcome]:
    from barbicel.gateway.migration.gateway_target import GatewayTarget
    from barbicel.pipeline.jobs.import_journals import spread

    with opened_target(gateway, may_create=False) as target:
        assert isinstance(target, GatewayTarget)
        target.prepare_ledger()
    task = _GatewayImport(journals.directory, gateway, rules)
    return spread(spark, {family.master: family.size_bytes for family in journals.families}, task)


# --- into a data directory ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StagedImport:
    """What a task does with a queue: an import into a directory of its own."""

    directory: str
    data: str

    def __call__(self, queue: str) -> FamilyOutcome:
        from barbicel.gateway.migration.adoption import staging_directory

        (family,) = open_source(RealDisk(), self.directory, [queue]).families
        return import_into(self.directory, queue, staging_directory(self.data, family))


def import_into(directory: str, queue: str, staged: str) -> FamilyOutcome:
    """An import of one queue into a data directory that has nothing else; goes on with one that was begun."""
    from barbicel.gateway.migration.directory_target import DirectoryTarget

    disk = RealDisk()
    journals = open_source(disk, directory, [queue])
    (family,) = journals.families
    with DirectoryTarget.open(disk, staged) as target:
        outcome = import_family(journals, family, target, target.completed(), ImportRules(), Quiet())
    if outcome.outcome is Outcome.ALREADY:
        # By a run that was killed before it moved it: what there is to tell of it is told now.
        outcome = plan_family(journals, family, Quiet())
        outcome.outcome = Outcome.IMPORTED
    return outcome


def into_directory(
    spark: Session, journals: JournalSource, data: str, path: str | None, rules: ImportRules
) -> list[FamilyOutcome]:
    """Queues that the directory has no topic of are imported beside it, all at once, then moved into it."""
    from barbicel.gateway.migration.adoption import adopt, staging_directory
    from barbicel.gateway.migration.directory_target import DirectoryTarget, check_apart
    from barbicel.pipeline.jobs.import_journals import spread

    disk = RealDisk()
    data = disk.resolve(data)
    check_apart(disk, journals.directory, data)
    with DirectoryTarget.open(disk, data, config=loaded_config(path)) as target:
        completed = target.completed()
        before = {entry.topic for entry in completed}
        fresh = {
            family.master: family.size_bytes
            for family in journals.families
            if target.topic_id(family.topic) is None and family.topic not in before
        }
        staged = {one.master: one for one in spread(spark, fresh, _StagedImport(journals.directory, data))}
        outcomes = []
        for family in journals.families:
            outcome = staged.get(family.master)
            if outcome is None or not (
                outcome.outcome is Outcome.IMPORTED
                and adopt(disk, target, family, staging_directory(data, family), outcome.records)
            ):
                outcome = import_family(journals, family, target, completed, rules, Quiet())
            outcomes.append(outcome)
    if disk.exists(f"{data}.importing") and not disk.names(f"{data}.importing"):
        disk.remove_directory(f"{data}.importing")
    return outcomes


# --- into an object store -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StoreImport:
    """What a task does with a queue: an import into a directory of its own, which is then uploaded."""

    directory: str
    url: str
    namespace: str
    staging: str

    def __call__(self, queue: str) -> FamilyOutcome:
        from barbicel.gateway.migration.offloading import is_offloaded, offload_family
        from barbicel.tier.keys import Keys
        from barbicel.tier.stores import open_store

        disk, keys = RealDisk(), Keys(self.namespace)
        (family,) = open_source(disk, self.directory, [queue]).families
        staged = f"{self.staging}/{family.import_id}"
        store = open_store(self.url, disk=disk)
        try:
            if is_offloaded(store, keys, family):
                return FamilyOutcome(family.master, family.import_id, Outcome.ALREADY)
            outcome = import_into(self.directory, queue, staged)
            if outcome.outcome is Outcome.FAILED:
                return outcome
            offload_family(disk, store, keys, family, staged)
        finally:
            store.close()
        remove_tree(disk, staged)
        return outcome


def _into_store(
    spark: Session, journals: JournalSource, url: str, namespace: str, staging: str
) -> list[FamilyOutcome]:
    from barbicel.gateway.migration.offloading import claim_namespace
    from barbicel.pipeline.jobs.import_journals import spread
    from barbicel.tier.keys import Keys
    from barbicel.tier.stores import open_store

    store = open_store(url, disk=RealDisk())
    try:
        claim_namespace(store, Keys(namespace))
    finally:
        store.close()
    task = _StoreImport(journals.directory, url, namespace, staging)
    return spread(spark, {family.master: family.size_bytes for family in journals.families}, task)


# --- into Parquet ---------------------------------------------------------------------------------------


def _to_parquet(
    spark: Session, source: str, queues: Sequence[str], path: str, check: bool, as_json: bool
) -> int:
    from barbicel.pipeline.jobs.import_journals import digest_items, list_journals, read_items, write_parquet

    disk = RealDisk()
    journals = list_journals(disk, source, queues)
    frame, reports = read_items(spark, journals)
    write_parquet(disk, frame, path)
    written = digest_items(spark.read.parquet(path)) if check else {}
    # Not the frame that was written: the journals are replayed and read once more.
    expected = digest_items(read_items(spark, journals)[0]) if check else {}
    differing = sorted(queue for queue in expected | written if expected.get(queue) != written.get(queue))
    if as_json:
        render_json(_describe_parquet(journals, reports, written, differing))
    else:
        _tell_parquet(journals, reports, written, differing)
    if differing:
        return EXIT_INCOMPLETE
    doubts = [*journals.doubts, *(doubt for report in reports for doubt in report.doubts)]
    return EXIT_DOUBTS if any(not doubt.is_harmless for doubt in doubts) else 0


def _describe_parquet(
    journals: Journals,
    reports: Sequence[LineReport],
    written: dict[str, tuple[int, str]],
    differing: Sequence[str],
) -> dict[str, object]:
    return {
        "source": journals.directory,
        "doubts": describe_doubts(journals.doubts),
        "queues": [
            {
                **report._asdict(),
                "doubts": describe_doubts(report.doubts),
                "digest": written.get(report.queue, (0, None))[1],
                "differs": report.queue in differing,
            }
            for report in reports
        ],
    }


def _tell_parquet(
    journals: Journals,
    reports: Sequence[LineReport],
    written: dict[str, tuple[int, str]],
    differing: Sequence[str],
) -> None:
    page = Page()
    page.line(f"Journals {journals.directory}")
    rows = [
        (one.queue, one.items, one.open_reads, one.operations, written.get(one.queue, (0, "-"))[1][:16])
        for one in reports
    ]
    if rows:
        columns = ("queue", "items", "open", "operations", "digest")
        page.table("Queues", number_table(columns, rows, words=("queue", "digest")))
    page.section("Not the same in the journals and in the files", differing)
    doubts = [*journals.doubts, *(doubt for report in reports for doubt in report.doubts)]
    page.section("Doubtful", doubt_lines(doubt for doubt in doubts if not doubt.is_harmless))
    page.section("Left out, nothing is missing", doubt_lines(doubt for doubt in doubts if doubt.is_harmless))
    items = sum(report.items for report in reports)
    page.ending(f"{counted(items, 'item')} of {counted(len(reports), 'queue')} written.")
