"""The tier of a server: one store, the partitions that use it, and the threads in which they do.

Nothing here waits in the reactor's thread. A store that is away, or is not fit, stops nothing else: segments
stay on the disk until it is there. Where tiering is switched off and data was tiered before, that is read and
nothing else is done: a consumer who was told that it is gone would pass over it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall

from barbicel.clock import Clock, steady_clock_ms
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.topic_file import ClusterFile, Topic, render_id
from barbicel.config.settings import Config
from barbicel.config.tier_settings import CLUSTER_ID, EMBEDDED, S3_DEFAULT
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, LogClosed
from barbicel.gateway.broker.data_layout import DataLayout, topic_directory
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.tiering.moves import telling_moves
from barbicel.gateway.broker.tiering.namespace import check_claim, claim, describe_topic
from barbicel.gateway.broker.tiering.removals import Removals
from barbicel.gateway.broker.topic_settings import TopicValues
from barbicel.gateway.broker.worker import answering
from barbicel.gateway.log_pace import LogPace
from barbicel.gateway.twisted_types import Reactor
from barbicel.tier.cold_reader import ColdReader
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.settings import ManifestSettings
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.pace import reactor_of_this_process
from barbicel.tier.retention import Limits
from barbicel.tier.stores import open_store
from barbicel.tier.tiered_partition import Policy, Tier, TieredPartition

__all__ = ["Flushed", "Tiering", "open_configured_store"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

SHUTDOWN_FLUSH_SECONDS = 30.0
SWITCHED_OFF = "tiering is switched off: remote.log.storage.system.enable"
_CODECS: Mapping[str, Codec] = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Attached(NamedTuple):
    """A partition with a tier, and the topic as it is now."""

    tiered: TieredPartition
    topic: Callable[[], Topic]
    values: Callable[[], TopicValues]


class Flushed(NamedTuple):
    partitions: int
    problems: list[str]


class Tiering:
    """`open_stream` and `attach` from any thread, the rest from the reactor's; `close` at the end."""

    def __init__(
        self,
        disk: Disk,
        layout: DataLayout,
        config: Config,
        cluster: ClusterFile,
        reactor: Reactor,
        clock: Clock,
    ) -> None:
        """Raises StoreRefused if the settings of the store are wrong. Nothing is asked of it yet."""
        self._disk = disk
        self._layout = layout
        self._config = config
        self._cluster = cluster
        self._reactor = reactor
        self._clock = clock
        self.store = open_configured_store(config, disk, layout)
        namespace = config.tier_namespace
        self.keys = Keys(render_id(cluster.cluster_id) if namespace == CLUSTER_ID else namespace)
        self.reader = ColdReader(
            self.store,
            segment_cache_bytes=config.tier_cache_bytes,
            index_cache_bytes=config.remote_log_index_file_cache_total_size_bytes,
            readahead_segments=config.tier_readahead_segments,
        )
        # How many wait for all to be uploaded.
        self._hurried = 0
        self._tier = Tier(
            store=self.store,
            keys=self.keys,
            reader=self.reader,
            disk=disk,
            clock=clock,
            codec=_CODECS[config.tier_compression_type],
            first_back_off_ms=config.remote_log_manager_task_retry_backoff_ms,
            longest_back_off_ms=config.remote_log_manager_task_retry_backoff_max_ms,
            foreground=reactor_of_this_process(),
            is_hurried=lambda: self._hurried > 0,
            check_store=self._check_claim,
        )
        self._settings = ManifestSettings(
            chunk_capacity_bytes=config.tier_manifest_chunk_bytes,
            rotation_period_ms=config.tier_manifest_rotation_ms,
        )
        self._attached: dict[object, Attached] = {}
        self._detached: list[TieredPartition] = []
        self._closing = threading.Lock()
        self._describing = threading.Lock()
        # What each topic's description in the store is, as far as this server wrote it.
        self._described: dict[UUID, Topic] = {}
        self._pace = LogPace(steady_clock_ms)
        self._removals = Removals(self.store, self.keys, disk, layout, self._pace)
        # Whether the store was found fit, and otherwise why not.
        self.is_ready = False
        self.is_switched_on = config.remote_log_storage_system_enable
        self.refusal: str | None = None if self.is_switched_on else SWITCHED_OFF
        self._threads = ThreadPoolExecutor(
            config.remote_log_manager_copier_thread_pool_size, thread_name_prefix="tier"
        )
        self._busy: set[object] = set()
        self._passes = LoopingCall(self._begin_pass)

    # --- partitions ---------------------------------------------------------------------------------

    def open_stream(self, topic: Topic, number: int, values: TopicValues) -> TieredPartition | None:
        """The tier of a partition, before its log is opened; None if it has none, nor shall have."""
        directory = self._layout.manifest(topic, number)
        if not values.is_tiered and not self._disk.exists(directory):
            return None
        # From here on whoever deletes the topic looks for its objects.
        self._disk.make_directory(directory)
        stream = ManifestStream.open(
            directory,
            stream_id=self._layout.stream(topic, number),
            disk=self._disk,
            clock=self._clock,
            settings=self._settings,
        )
        return TieredPartition(self._tier, stream, directory, topic_directory(topic), number)

    def attach(
        self, tiered: TieredPartition, topic: Callable[[], Topic], values: Callable[[], TopicValues]
    ) -> None:
        self._attached[tiered] = Attached(tiered, topic, values)

    def detach(self, tiered: object) -> None:
        """Its log is about to be closed. A pass that is under way ends by itself, then its stream closes."""
        attached = self._attached.pop(tiered, None)
        if attached is not None:
            attached.tiered.stop()
            self._detached.append(attached.tiered)
            self._threads.submit(self._close_detached)

    def _close_detached(self) -> None:
        """In a thread. On return no pass of a detached partition is under way."""
        with self._closing:
            while self._detached:
                self._detached.pop().close()

    def place_of_segment(self, partition: Partition, base_offset: int) -> str | None:
        """Where a segment of the log is besides: "store" or None."""
        attached = self._attached.get(partition.stored.tiered)
        if attached is None:
            return None
        entry = attached.tiered.stream.catalogue.segment(base_offset)
        return "store" if entry is not None and entry.is_tiered else None

    @property
    def partitions(self) -> list[Attached]:
        return list(self._attached.values())

    # --- passes -------------------------------------------------------------------------------------

    def start(self) -> None:
        if not self.is_switched_on:
            _log.warning(
                "%s; what %d partitions have in %s is read from there, and nothing is written there",
                SWITCHED_OFF,
                len(self._attached),
                self.store.url,
            )
        self._passes.clock = self._reactor  # type: ignore[assignment]  # of an interface that is no type
        self._passes.start(self._config.remote_log_manager_task_interval_ms / 1000)

    def _begin_pass(self) -> None:
        """Those of which one is still under way are left to it."""
        if not self.is_ready:
            self._run_once(self, self._prepare, self._go_on_if_ready)
        for topic in self._removals.topics:
            self._try_removal(topic)
        for attached in self.partitions:
            self._run_once(attached.tiered, partial(self._work, attached))

    def _go_on_if_ready(self, _: None) -> None:
        if self.is_ready and self._passes.running:
            self._begin_pass()

    def _run_once(
        self, owner: object, function: Callable[[], T], then: Callable[[T], None] = lambda _: None
    ) -> None:
        """Unless the owner's last one is still under way."""
        if owner in self._busy:
            return
        self._busy.add(owner)

        def done(outcome: Any) -> Any:
            self._busy.discard(owner)
            return outcome

        answer = self._in_thread(function).addBoth(done).addCallback(then)
        answer.addErrback(lambda failure: _log.error("the tier failed", exc_info=failure.value))

    def _in_thread(self, function: Callable[[], T]) -> Deferred[T]:
        answer, job = answering(self._reactor, function)
        self._threads.submit(job)
        return answer

    # --- in threads ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if not self.is_switched_on:
            return
        try:
            if any(attached.tiered.tiered for attached in self.partitions):
                # It had its claim: where there is none now is not where its segments are.
                self._check_claim()
            claim(self.store, self.keys, self._cluster)
        except BarbicelError as error:
            self.refusal = str(error)
            if self._pace.is_due():
                _log.error("nothing is tiered: %s", error)
            return
        self.is_ready, self.refusal = True, None
        _log.info("sealed segments are tiered to %s, namespace %s", self.store.url, self.keys.namespace)

    def _check_claim(self) -> None:
        check_claim(self.store, self.keys, self._cluster)

    def _work(self, attached: Attached) -> None:
        with telling_moves(_name(attached), attached.tiered):
            problems = attached.tiered.work(
                _policy(attached.values()), has_store=self.is_ready, first=partial(self._describe, attached)
            )
        self._tell(attached, problems)

    def _describe(self, attached: Attached) -> None:
        """A step of a pass: of a topic that is deleted nothing is written once its partitions are closed."""
        topic = attached.topic()
        # Its partitions would get into each other's way.
        with self._describing:
            if self._described.get(topic.id) != topic:
                describe_topic(self.store, self.keys, attached.tiered.topic_dir, topic)
                self._described[topic.id] = topic

    def _tell(self, attached: Attached, problems: Iterable[BarbicelError]) -> None:
        for finding in attached.tiered.take_findings():
            _log.warning("the tier of %s: %s (see 'barbicel manifest verify')", _name(attached), finding)
        for problem in problems:
            # Its topic was deleted meanwhile, or the server stops.
            if not isinstance(problem, LogClosed) and self._pace.is_due():
                _log.warning("the tier of %s: %s", _name(attached), problem)

    # --- what is asked for --------------------------------------------------------------------------

    def flush(self) -> Deferred[Flushed]:
        """Seal and upload everything, if the store is fit for it: nothing goes into another's namespace.

        Until it fires uploads do not give way to clients, those that are under way neither.
        """

        def done(outcome: Any) -> Any:
            self._hurried -= 1
            return outcome

        self._hurried += 1
        flushed: Deferred[Flushed] = self._in_thread(self._prepare_to_flush).addCallback(self._flush_all)
        return flushed.addBoth(done)

    def _prepare_to_flush(self) -> bool:
        if not self.is_ready:
            self._prepare()
        return self.is_ready

    def _flush_all(self, is_ready: bool) -> Deferred[Flushed] | Flushed:
        if not is_ready:
            return Flushed(len(self._attached), [str(self.refusal)])
        flushes = [self._in_thread(partial(self._flush, attached)) for attached in self.partitions]

        def tell(outcomes: list[tuple[bool, Any]]) -> Flushed:
            problems = [
                text
                for is_good, outcome in outcomes
                for text in (outcome if is_good else [str(outcome.value)])
            ]
            return Flushed(len(flushes), problems)

        return DeferredList(flushes, consumeErrors=True).addCallback(tell)

    def _flush(self, attached: Attached) -> list[str]:
        policy = _policy(attached.values())
        if not policy.is_copied:
            return []
        with telling_moves(_name(attached), attached.tiered):
            problems = attached.tiered.flush(policy, first=partial(self._describe, attached))
        return [f"{_name(attached)}: {problem}" for problem in problems]

    # --- deleted topics -----------------------------------------------------------------------------

    def remove(self, topic: Topic) -> Deferred[None]:
        """Delete all that the store has of a topic, however long that takes; nobody may use it any more."""
        self._described.pop(topic.id, None)
        done = self._removals.add(topic)
        if self._passes.running:
            self._try_removal(topic)
        return done

    def _try_removal(self, topic: Topic) -> None:
        def finish(is_done: bool) -> None:
            if is_done:
                self._removals.finish(topic)

        def work() -> bool:
            self._close_detached()  # or an upload that is under way could leave something
            return self._removals.work(topic)

        if self.is_ready:
            self._run_once(topic.id, work, finish)

    # --- the end ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Upload what can be in time, if that is wanted, and close every stream. Waits; logs are open yet."""
        self._hurried += 1
        if self._passes.running:
            self._passes.stop()
        if self._config.tier_flush_on_shutdown and self.is_ready:
            jobs = [self._threads.submit(partial(self._flush, attached)) for attached in self.partitions]
            wait(jobs, SHUTDOWN_FLUSH_SECONDS)
        for attached in self.partitions:
            attached.tiered.stop()
        self._removals.stop()
        self._threads.shutdown(cancel_futures=True)
        self._detached += [attached.tiered for attached in self.partitions]
        self._attached.clear()
        self._close_detached()
        self.reader.close()
        self.store.close()


def open_configured_store(config: Config, disk: Disk, layout: DataLayout) -> ObjectStore:
    """Raises StoreRefused."""
    if config.tier_store == EMBEDDED:
        return open_store(layout.object_store, disk=disk)
    given = {"endpoint": config.tier_s3_endpoint, "region": config.tier_s3_region}
    options = {name: value for name, value in given.items() if value != S3_DEFAULT}
    return open_store(config.tier_store, disk=disk, options=options)


def _name(attached: Attached) -> str:
    return f"{attached.topic().name}-{attached.tiered.partition}"


def _policy(values: TopicValues) -> Policy:
    return Policy(
        values.is_tiered,
        Limits(values.retention_bytes, values.retention_ms),
        Limits(values.local_retention_bytes, values.local_retention_ms),
    )
