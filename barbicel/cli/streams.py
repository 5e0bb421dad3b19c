"""Which manifest a command means, and the store that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import click

from barbicel.cli.import_journals import config_option, data_option, loaded_config
from barbicel.codecs.topic_file import ID_TEXT_CHARS, MAX_FILE_BYTES, decode_cluster, render_id
from barbicel.config.settings import Config
from barbicel.config.tier_settings import CLUSTER_ID
from barbicel.disk import Disk, read_file
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.data_layout import DataLayout, topic_directory
from barbicel.gateway.broker.tiering.tiering import open_configured_store
from barbicel.gateway.broker.topic_survey import survey_topics
from barbicel.tier.keys import Keys
from barbicel.tier.object_store import ObjectStore

__all__ = ["Streams", "opened_streams", "stream_options"]

_STREAM_OPTIONS = (
    data_option,
    config_option,
    click.option("--local", "is_local", is_flag=True, help="Do not look into the object store."),
)


def stream_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_STREAM_OPTIONS):
        command = option(command)
    return command


class Streams(NamedTuple):
    """The manifests of a data directory."""

    disk: Disk
    layout: DataLayout
    names: list[str]
    topics: Mapping[str, str]
    store: ObjectStore | None
    keys: Keys | None

    def directory(self, name: str) -> str:
        return f"{self.layout.tier}/{name}"

    def named(self, wanted: str) -> list[str]:
        """By a stream's id, by a topic and a partition, or by a topic alone. Raises BarbicelError."""
        found = [name for name in self.names if wanted in self._names_of(name)]
        if not found:
            raise BarbicelError(
                f"there is no manifest of {wanted!r}",
                path=self.layout.tier,
                hint=f"there are: {', '.join(self.names[:10]) or 'none'}",
            )
        return found

    def _names_of(self, stream_id: str) -> tuple[str, str, str]:
        """Its id, `topic-partition`, and the topic."""
        topic_dir, _, partition = stream_id.rpartition("-")
        topic = self.topics.get(topic_dir, topic_dir[: -ID_TEXT_CHARS - 1])
        return stream_id, f"{topic}-{partition}", topic


def _topics(disk: Disk, layout: DataLayout) -> dict[str, str]:
    """Names by directories, as far as they can be read: a directory has not all of a long name."""
    try:
        found = survey_topics(disk, layout)
    except BarbicelError:
        return {}
    return {topic_directory(topic): topic.name for topic in (*found.live.values(), *found.deleted)}


@contextmanager
def opened_streams(disk: Disk, data: str | None, path: str | None, is_local: bool) -> Iterator[Streams]:
    config = loaded_config(path)
    layout = DataLayout(disk.resolve(data or config.data_directory))
    names = sorted(disk.names(layout.tier)) if disk.exists(layout.tier) else []
    topics = _topics(disk, layout)
    if is_local:
        yield Streams(disk, layout, names, topics, None, None)
        return
    store = open_configured_store(replace(config, data_directory=layout.root), disk, layout)
    try:
        yield Streams(disk, layout, names, topics, store, _keys(disk, config, layout))
    finally:
        store.close()


def _keys(disk: Disk, config: Config, layout: DataLayout) -> Keys:
    if config.tier_namespace != CLUSTER_ID:
        return Keys(config.tier_namespace)
    cluster = decode_cluster(read_file(disk, layout.cluster_file, MAX_FILE_BYTES))
    return Keys(render_id(cluster.cluster_id))
