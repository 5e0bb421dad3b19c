"""A data directory as the target, while no server runs on it. It holds the directory's lock."""

from __future__ import annotations

from collections.abc import Sequence

from barbicel.clock import Clock, wall_clock_ms
from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.codecs.topic_file import Topic
from barbicel.config import Config
from barbicel.disk import Disk
from barbicel.errors import LogLocked
from barbicel.gateway.broker.catalogue import Catalogue
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.topic_settings import effective_settings
from barbicel.gateway.migration.directory_queue import PARTITION, DirectoryQueue
from barbicel.gateway.migration.group_names import GroupNames
from barbicel.gateway.migration.target import (
    LEDGER_SETTINGS,
    LEDGER_TOPIC,
    Completed,
    Keeping,
    Target,
    TargetRefused,
    check_keeping,
    parse_completed,
    render_completed,
)
from barbicel.keratin import Log, LogSettings, Writer, WriterSettings
from barbicel.kestrel_compat.names import QueueName, topic_of
from barbicel.kestrel_compat.queue_settings import SettingsBook
from barbicel.stroma import GroupStore
from barbicel.stroma.layout import StoreLayout

__all__ = ["DirectoryTarget", "check_apart"]

# What waits to be written: enough to build the next batch meanwhile, and no more.
WRITER = WriterSettings(max_queue_bytes=8 << 20)


class DirectoryTarget(Target):
    """Use `open`. One thread only."""

    def __init__(
        self, disk: Disk, catalogue: Catalogue, store: GroupStore, config: Config, clock: Clock
    ) -> None:
        self.catalogue = catalogue
        self.store = store
        self._writer = Writer(WRITER)
        self._disk = disk
        self._names = GroupNames(disk, StoreLayout(catalogue.layout.groups))
        self._config = config
        self._clock = clock
        self._book = SettingsBook(config.kestrel_queues)
        self._ledger: DirectoryQueue | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        data_dir: str,
        *,
        config: Config | None = None,
        clock: Clock = wall_clock_ms,
        may_create: bool = True,
    ) -> DirectoryTarget:
        """Lock the directory. Raises TargetRefused if a server has it, or if there is none."""
        layout = DataLayout(data_dir)
        if not may_create and not disk.exists(layout.cluster_file):
            raise TargetRefused("there is no data directory", path=data_dir)
        try:
            catalogue = Catalogue.open(disk, disk.resolve(data_dir), clock)
        except LogLocked as error:
            raise TargetRefused(
                "a server uses this data directory, or another import",
                path=data_dir,
                hint="stop it; import-journals and verify-import can use a running server with --bootstrap",
            ) from error
        try:
            store = GroupStore.open(catalogue.layout.groups, disk=disk, clock=clock)
            target = cls(disk, catalogue, store, config or Config(), clock)
        except BaseException:
            catalogue.close()
            raise
        try:
            target._finish_deletions()
        except BaseException:
            target.close()
            raise
        return target

    def _finish_deletions(self) -> None:
        """As the server does at its start: a new topic must not get the groups of an old one."""
        for deleted in self.catalogue.deleted:
            if self.catalogue.by_name(deleted.name) is None:
                for key in [key for key in self.store.groups() if key.topic == deleted.name]:
                    self.store.delete(key)
            self.catalogue.remove_deleted(deleted)

    def close(self) -> None:
        try:
            if self._ledger is not None:
                self._ledger.close()
            self._writer.close()
            self.store.close()
        finally:
            self.catalogue.close()

    # --- queues -------------------------------------------------------------------------------------

    def find(self, topic: str) -> DirectoryQueue | None:
        found = self.catalogue.by_name(topic)
        return None if found is None else self._open(found)

    def topic_id(self, topic: str) -> str | None:
        found = self.catalogue.by_name(topic)
        return None if found is None else str(found.id)

    def make(self, names: Sequence[QueueName]) -> DirectoryQueue:
        master = names[0].master
        topic = self.catalogue.by_name(topic_of(master))
        if topic is None:
            topic = self.catalogue.create(topic_of(master), 1, self._new_settings(master), may_collide=True)
        queue = self._open(topic)
        try:
            check_keeping(topic.name, self._keeping(topic))
            queue.begin_lines([name.group for name in names])
        except BaseException:
            queue.close()
            raise
        return queue

    def _keeping(self, topic: Topic) -> Keeping:
        values = effective_settings(topic.settings, self._config)
        return Keeping(
            _limit_text(values.retention_ms),
            _limit_text(values.retention_bytes),
            "LogAppendTime" if values.is_append_time else "CreateTime",
        )

    def _new_settings(self, master: str) -> dict[str, str]:
        """As the gateway makes a queue's topic."""
        segment_bytes = self._book.for_queue(master).default_journal_size_bytes
        return {"kestrel.queue": "true", **LEDGER_SETTINGS, "segment.bytes": str(segment_bytes)}

    def _open(self, topic: Topic) -> DirectoryQueue:
        if topic.partitions != 1:
            raise TargetRefused(
                f"topic {topic.name!r} has {topic.partitions} partitions, and a queue has one"
            )
        values = effective_settings(topic.settings, self._config)
        directory = self.catalogue.layout.partition(topic, PARTITION)
        settings = LogSettings(segment_max_bytes=values.segment_bytes, segment_max_age_ms=values.segment_ms)
        log = Log.open(directory, disk=self._disk, settings=settings, clock=self._clock)
        try:
            return DirectoryQueue(self._disk, topic, log, self.store, self._names, self._writer, self._clock)
        except BaseException:
            log.close()
            raise

    # --- the ledger ---------------------------------------------------------------------------------

    def completed(self) -> list[Completed]:
        ledger = self._opened_ledger()
        if ledger is None:
            return []
        found = [parse_completed(item.data) for item in ledger.scan(ledger.start_offset)]
        return [entry for entry in found if entry is not None]

    def note_completed(self, entry: Completed) -> None:
        if self.catalogue.by_name(LEDGER_TOPIC) is None:
            self.catalogue.create(LEDGER_TOPIC, 1, LEDGER_SETTINGS, may_collide=True)
        ledger = self._opened_ledger()
        assert ledger is not None
        ledger.append([NewRecord(entry.completed_ms, entry.topic.encode(), render_completed(entry))])
        ledger.settle()

    def _opened_ledger(self) -> DirectoryQueue | None:
        """Opened once: opening and closing it for each of thousands of queues would take as long as they."""
        if self._ledger is None:
            self._ledger = self.find(LEDGER_TOPIC)
        return self._ledger


def check_apart(disk: Disk, journals: str, data_dir: str, *, are_written: bool = False) -> None:
    """Raises TargetRefused for a data directory that would be among Kestrel's journals, or they in it.

    Kestrel does not start on journals that have other files beside them, which would be the end of the way
    back. Journals that are written are kept out of all that is in the data directory, too.
    """
    kestrels, ours = disk.resolve(journals), disk.resolve(data_dir)
    if kestrels == ours or (are_written and kestrels.startswith(f"{ours}/")):
        raise TargetRefused(
            "journals and a data directory do not go into one directory",
            path=journals,
            hint="name another one, or another data directory with --data",
        )


def _limit_text(limit: int | None) -> str:
    return "-1" if limit is None else str(limit)
