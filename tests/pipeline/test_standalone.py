"""A real master and a real worker, and a job that is submitted to them: what is packaged is all they need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import barbicel.cli.main
from tests.pipeline.topics import every_codec
from tests.rig.jvm import bound_to_this_process
from tests.support.gateway import Gateway

ROOT = Path(__file__).parent.parent.parent
SPARK = Path(pyspark.__file__).parent
DEADLINE_S = 120
POLL_S = 0.1
MASTER = re.compile(r"Starting Spark master at (spark://[0-9.]+:[0-9]+)")
WORKER = re.compile(r"Successfully registered with master")


@contextmanager
def daemon(
    directory: Path, name: str, arguments: list[str], wanted: re.Pattern[str]
) -> Iterator[re.Match[str]]:
    """A part of a cluster, from the moment at which it says what is wanted."""
    log = directory / f"{name}.log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(directory),
    }
    command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            bound_to_this_process(command), stdout=output, stderr=output, env=environment
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while (found := wanted.search(log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(POLL_S)
        yield found
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def master(jars: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    here = tmp_path_factory.mktemp("cluster")
    local = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with daemon(here, "master.Master", local, MASTER) as found:
        url = found[1]
        own = [*local, "--cores", "2", "--memory", "1g", "--work-dir", str(here / "work"), url]
        with daemon(here, "worker.Worker", own, WORKER):
            yield url


def test_a_job_on_a_cluster(master: str, jars: list[str], gateway: Gateway, tmp_path: Path) -> None:
    """By the connector and by the direct source, both in workers that the test did not start itself."""
    sent = every_codec(gateway, "cluster.all", each=5)
    gateway.stop()
    gateway.start()
    submit = [
        *(str(SPARK / "bin" / "spark-submit"), "--master", master, "--jars", ",".join(jars)),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.sql.shuffle.partitions=2"),
        *(str(barbicel.cli.main.__file__), "pipeline", "verify", gateway.bootstrap),
        *("--topic", "cluster.all", "--against", str(gateway.data), "--json"),
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        submit,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert [sum(one["records"] for one in store["partitions"]) for store in found["stores"]] == [
        len(sent)
    ] * 2
    assert found["differences"] == []
