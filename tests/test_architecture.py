"""The package keeps the structure that docs/architecture.md draws, and what breaks it would be found."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture import MAY_IMPORT, Violation, check, read_sources

ROOT = Path(__file__).parent.parent

# A module that is in order, up to its third line. What follows begins at line 4.
GOOD = '"""A module."""\n\n__all__: list[str] = []\n'


def found_in(path: str, text: str) -> list[str]:
    """What is found in one module of a package that is in order otherwise."""
    directories = Path(path).parents
    sources = {f"{directory}/__init__.py": GOOD for directory in directories if directory.name}
    return [str(violation) for violation in check({**sources, path: text})]


def test_the_package_keeps_its_structure() -> None:
    sources = read_sources(ROOT)
    assert "barbicel/keratin/log.py" in sources
    assert "\n".join(map(str, check(sources))) == ""


def test_the_table_has_no_circles_and_knows_what_it_names() -> None:
    order = list(TopologicalSorter(MAY_IMPORT).static_order())
    assert set(order) == set(MAY_IMPORT)


# Each line stands in the named module as its fourth line.
ALLOWED = [
    ("disk.py", "from barbicel.errors import DiskError"),
    ("codecs/kfs.py", "from barbicel.disk import Bytes"),
    ("codecs/kfs.py", "import uuid"),
    ("keratin/log.py", "from barbicel.keratin.segment import ActiveSegment"),
    ("keratin/log.py", "from .segment import ActiveSegment"),
    ("keratin/log.py", "from ..clock import Clock"),
    ("keratin/log.py", "from barbicel import errors"),
    ("stroma/store.py", "import barbicel.keratin.log"),
    ("tier/offload.py", "from barbicel.codecs.kfs import encode_segment"),
    ("gateway/broker.py", "from barbicel.tier.offload import Offload"),
    ("gateway/service.py", "from twisted.internet.protocol import Factory"),
    ("pipeline/jobs.py", "from pyspark.sql import SparkSession"),
    ("pipeline/jobs.py", "from barbicel.keratin import Log"),
    ("pipeline/jobs.py", "from barbicel.keratin.reader import Reader"),
    ("cli/serve.py", "from barbicel.gateway.service import run"),
    ("cli/main.py", "from barbicel import __version__"),
    ("__main__.py", "from barbicel.cli.main import main"),
    ("disk.py", "import os, fcntl, mmap; os.open('a', 0)"),
    ("keratin/log.py", "import os; os.getpid(); os.environ.get('A')"),
    ("keratin/log.py", "from io import BytesIO; BytesIO()"),
    ("keratin/log.py", "from pathlib import PurePosixPath; PurePosixPath('a').parent"),
    ("keratin/log.py", "disk.open(path, 'read'); disk.unlink(path); disk.exists(path); self.open()"),
    ("cli/main.py", "import importlib; importlib.import_module('barbicel.gateway.service')"),
]


@pytest.mark.parametrize(("module", "line"), ALLOWED)
def test_what_is_allowed_is_not_reported(module: str, line: str) -> None:
    assert found_in(f"barbicel/{module}", f"{GOOD}{line}\n") == []


# (module, its fourth line, what is reported)
IMPORTS_THE_WRONG_WAY = [
    ("errors.py", "import barbicel.disk", "errors may not import barbicel.disk"),
    ("disk.py", "from barbicel.clock import Clock", "disk may not import barbicel.clock.Clock"),
    ("codecs/kfs.py", "from barbicel.clock import Clock", "codecs may not import barbicel.clock.Clock"),
    ("codecs/kfs.py", "from barbicel.keratin import Log", "codecs may not import barbicel.keratin.Log"),
    ("keratin/log.py", "from barbicel import tier", "keratin may not import barbicel.tier"),
    ("keratin/log.py", "import barbicel.stroma.store", "keratin may not import barbicel.stroma.store"),
    ("keratin/log.py", "from ..tier import offload", "keratin may not import barbicel.tier.offload"),
    ("keratin/log.py", "from .. import tier", "keratin may not import barbicel.tier"),
    ("keratin/a/b.py", "from ...cli import main", "keratin may not import barbicel.cli.main"),
    ("tier/offload.py", "from barbicel.keratin import Log", "tier may not import barbicel.keratin.Log"),
    ("stroma/store.py", "from barbicel.tier import s3", "stroma may not import barbicel.tier.s3"),
    ("kestrel_compat/queue.py", "import barbicel.gateway", "kestrel_compat may not import barbicel.gateway"),
    ("gateway/service.py", "import barbicel.cli.main", "gateway may not import barbicel.cli.main"),
    ("gateway/service.py", "import barbicel.pipeline", "gateway may not import barbicel.pipeline"),
    ("pipeline/jobs.py", "import barbicel.gateway", "pipeline may not import barbicel.gateway"),
    ("keratin/log.py", "from barbicel import *", "keratin may not import barbicel.*"),
    ("keratin/log.py", "import barbicel", "keratin may not import barbicel"),
    ("keratin/log.py", "from barbicel.nowhere import x", "keratin may not import barbicel.nowhere.x"),
    ("keratin/log.py", "def f(): import barbicel.tier", "keratin may not import barbicel.tier"),
    ("keratin/log.py", "if TYPE_CHECKING: import barbicel.tier", "keratin may not import barbicel.tier"),
    ("keratin/log.py", "import_module('barbicel.tier')", "keratin may not import barbicel.tier"),
    ("keratin/log.py", "__import__('barbicel.cli')", "keratin may not import barbicel.cli"),
    ("keratin/log.py", "importlib.import_module(name)", "keratin may not import barbicel.<computed>"),
    (
        "codecs/kfs.py",
        "from barbicel.disk import Disk",
        "codecs may take only Bytes from disk, not barbicel.disk.Disk",
    ),
    ("codecs/kfs.py", "import barbicel.disk", "codecs may take only Bytes from disk, not barbicel.disk"),
    (
        "pipeline/jobs.py",
        "from barbicel.keratin import Writer",
        "pipeline may take only Log, LogSettings, layout, manifest, reader, settings, walk from keratin,"
        " not barbicel.keratin.Writer",
    ),
]
LIBRARIES_IN_THE_WRONG_PART = [
    ("kestrel_compat/session.py", "import twisted", "only gateway may import twisted"),
    ("cli/serve.py", "from twisted.internet import task", "only gateway may import twisted.internet.task"),
    ("tier/offload.py", "def f(): import pyspark.sql", "only pipeline may import pyspark.sql"),
    ("gateway/broker.py", "from pyspark import SparkConf", "only pipeline may import pyspark.SparkConf"),
]
CODECS_THAT_KNOW_TOO_MUCH = [
    ("codecs/kafka/batch.py", f"import {name}", f"a codec may not import {name}")
    for name in ("time", "datetime", "logging", "random", "threading", "socket")
] + [
    ("codecs/kfs.py", "from time import time_ns", "a codec may not import time.time_ns"),
    ("codecs/kfs.py", "def f(): import logging.config", "a codec may not import logging.config"),
]
FILES_TOUCHED_ELSEWHERE = [
    ("keratin/log.py", "x = open('a')", "use open"),
    ("codecs/kfs.py", "f(open)", "use open"),
    ("cli/main.py", "import os; os.stat('a')", "use os.stat"),
    ("cli/main.py", "import os as system; system.unlink('a')", "use os.unlink"),
    ("cli/main.py", "import os; os.path.exists('a')", "use os.path.exists"),
    ("cli/main.py", "import os; f(os)", "use os"),
    ("cli/main.py", "import os.path", "import os.path"),
    ("cli/main.py", "from os import path", "import os.path"),
    ("cli/main.py", "from os import fsync as flush", "import os.fsync"),
    ("cli/main.py", "from os.path import join", "import os.path.join"),
    ("tier/directory.py", "import shutil", "import shutil"),
    ("tier/directory.py", "from tempfile import mkstemp", "import tempfile.mkstemp"),
    ("tier/directory.py", "def f(): import mmap", "import mmap"),
    ("tier/directory.py", "import fcntl", "import fcntl"),
    ("tier/directory.py", "import io; io.open('a')", "use io.open"),
    ("tier/directory.py", "from io import FileIO", "import io.FileIO"),
    ("tier/directory.py", "import gzip; gzip.open('a')", "use gzip.open"),
    ("tier/directory.py", "from gzip import open as unpack", "import gzip.open"),
    ("config.py", "from pathlib import Path", "import pathlib.Path"),
    ("config.py", "import pathlib; pathlib.Path('a')", "use pathlib.Path"),
    ("config.py", "from importlib.resources import files", "import importlib.resources.files"),
    ("config.py", "import click; click.File('r')", "use click.File"),
    ("errors.py", "path.read_text()", "use .read_text"),
    ("errors.py", "(root / 'a').write_bytes(b'')", "use .write_bytes"),
    ("errors.py", "f(path)[0].mkdir()", "use .mkdir"),
    ("errors.py", "all = path.iterdir", "use .iterdir"),
]


@pytest.mark.parametrize(
    ("module", "line", "message"),
    [
        *IMPORTS_THE_WRONG_WAY,
        *LIBRARIES_IN_THE_WRONG_PART,
        *CODECS_THAT_KNOW_TOO_MUCH,
        *(
            (module, line, f"only barbicel/disk.py may {message}")
            for module, line, message in FILES_TOUCHED_ELSEWHERE
        ),
    ],
)
def test_a_broken_rule_is_reported_with_file_and_line(module: str, line: str, message: str) -> None:
    path = f"barbicel/{module}"
    assert found_in(path, f"{GOOD}{line}\n") == [f"{path}:4: {message}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__all__: list[str] = []\n", "the module has no docstring"),
        ('"""A module."""\n', "the module has no __all__, a list of names"),
        ('"""A module."""\n__all__ = [name]\n', "the module has no __all__, a list of names"),
        ('"""A module."""\ndef f(): __all__ = []\n', "the module has no __all__, a list of names"),
    ],
)
def test_a_module_introduces_itself(text: str, message: str) -> None:
    assert found_in("barbicel/keratin/log.py", text) == [f"barbicel/keratin/log.py:1: {message}"]


@pytest.mark.parametrize(
    ("path", "part"), [("barbicel/extras/x.py", "extras"), ("barbicel/extra.py", "extra")]
)
def test_a_new_part_needs_a_row(path: str, part: str) -> None:
    assert f"{path}:1: the part {part} has no row in MAY_IMPORT" in found_in(path, GOOD)


def test_a_directory_needs_its_init() -> None:
    path = "barbicel/keratin/deep/log.py"
    assert check({"barbicel/__init__.py": GOOD, path: GOOD}) == [
        Violation(path, 1, "barbicel/keratin/deep has no __init__.py, so it is not installed")
    ]


def test_everything_is_reported_in_the_order_of_lines() -> None:
    text = "import barbicel.tier\nimport twisted\n\nx = open('a')\n"
    assert found_in("barbicel/keratin/log.py", text) == [
        "barbicel/keratin/log.py:1: keratin may not import barbicel.tier",
        "barbicel/keratin/log.py:1: the module has no __all__, a list of names",
        "barbicel/keratin/log.py:1: the module has no docstring",
        "barbicel/keratin/log.py:2: only gateway may import twisted",
        "barbicel/keratin/log.py:4: only barbicel/disk.py may use open",
    ]
