"""Journals by Spark: the same queues as by the importer on one machine, by digest."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barbicel.cli import pipeline_import_journals as verb
from barbicel.disk import RealDisk
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import ImportRules
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.verify import Verdict
from barbicel.pipeline.digest import render_digest
from barbicel.pipeline.jobs import import_journals as job
from barbicel.pipeline.jobs.surveys import survey_records
from tests.cli.support import document, run, words
from tests.gateway.migration.support import run_verify
from tests.pipeline.journals import write_journals
from tests.support.gateway import Gateway
from tests.support.secure_gateway import PASSWORDS, running_secure_gateway


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    return write_journals(tmp_path / "journals")


def line_digests(journals: Path, data: Path) -> dict[str, tuple[int, str, str]]:
    """Line → items, the digest in the journals and that in the data directory; no line has a problem."""
    verdicts = run_verify(RealDisk(), source=str(journals), data=str(data))
    assert {one.verdict for one in verdicts} == {Verdict.COMPLETE}, verdicts
    return {
        line.queue: (line.target_items, line.journal_digest, line.target_digest)
        for one in verdicts
        for line in one.lines
    }


def stored_records(data: Path) -> dict[str, int]:
    """How many there are in each log, whoever has put them there: none may be there twice."""
    source = {family.topic for family in open_source(RealDisk(), str(data.parent / "journals")).families}
    with DirectoryTarget.open(RealDisk(), str(data), may_create=False) as target:
        found = {}
        for topic in sorted(source):
            queue = target.find(topic)
            assert queue is not None
            with queue:
                found[topic] = queue.end_offset
        return found


def test_into_a_data_directory(spark: SparkSession, journals: Path, tmp_path: Path) -> None:
    by_spark, by_one = tmp_path / "by-spark", tmp_path / "by-one"
    result = document(run("pipeline", "import-journals", journals, "--data", by_spark, "--json"))
    alone = document(run("import-journals", journals, "--data", by_one, "--json"))
    assert result["queues"] == alone["queues"]
    assert line_digests(journals, by_spark) == line_digests(journals, by_one)
    assert not (tmp_path / "by-spark.importing").exists()


def test_again_does_nothing_and_what_is_there_is_kept(
    spark: SparkSession, journals: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    # One queue is there already.
    assert run("import-journals", journals, "--data", data, "--queue", "queue-1").exit_code == 0
    first = run("pipeline", "import-journals", journals, "--data", data)
    assert (first.exit_code, "Already imported, nothing was done queue-1" in words(first)) == (0, True)
    before = line_digests(journals, data)
    second = run("pipeline", "import-journals", journals, "--data", data)
    assert second.exit_code == 0
    assert "Imported 0 queues: 0 records stored." in words(second)
    assert line_digests(journals, data) == before


def test_what_a_killed_run_has_staged_is_used(spark: SparkSession, journals: Path, tmp_path: Path) -> None:
    """A run that dies between staging and moving leaves directories beside the data."""
    data = tmp_path / "data"
    for queue in ("queue-0", "fans"):
        verb._StagedImport(str(journals), str(data))(queue)
    assert len(list((tmp_path / "data.importing").iterdir())) == 2
    result = document(run("pipeline", "import-journals", journals, "--data", data, "--json"))
    assert len(line_digests(journals, data)) == 7
    assert not (tmp_path / "data.importing").exists()
    alone = document(run("import-journals", journals, "--data", tmp_path / "alone", "--json"))
    assert result["queues"] == alone["queues"]
    assert stored_records(data) == stored_records(tmp_path / "alone")


def test_moving_that_was_cut_short_goes_on(
    spark: SparkSession, journals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the log is in its place and before the ledger says so."""
    data = tmp_path / "data"

    def die(*arguments: object) -> None:
        raise Killed

    source = open_source(RealDisk(), str(journals))
    with monkeypatch.context() as patched:
        patched.setattr(DirectoryTarget, "note_completed", die)
        # Staged by hand: tasks are in other processes, where nothing is patched.
        patched.setattr(
            job, "spread", lambda spark, sizes, task: [staged(journals, data, one) for one in sizes]
        )
        with pytest.raises(Killed):
            verb.into_directory(spark, source, str(data), None, ImportRules())
    assert run("pipeline", "import-journals", journals, "--data", data).exit_code == 0
    assert len(line_digests(journals, data)) == 7
    assert run("import-journals", journals, "--data", tmp_path / "alone").exit_code == 0
    assert stored_records(data) == stored_records(tmp_path / "alone")


class Killed(BaseException):
    pass


def staged(journals: Path, data: Path, queue: str) -> object:
    """As a task leaves it: imported whole, whatever is patched here."""
    program = (
        "import sys, pickle; from barbicel.cli.pipeline_import_journals import _StagedImport;"
        "sys.stdout.buffer.write(pickle.dumps(_StagedImport(*sys.argv[1:3])(sys.argv[3])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(journals), str(data), queue], capture_output=True, check=True
    )
    return pickle.loads(done.stdout)


def test_into_a_running_gateway(
    spark: SparkSession, gateway: Gateway, journals: Path, tmp_path: Path
) -> None:
    address = ("--bootstrap", gateway.bootstrap, "--kestrel", f"{gateway.host}:{gateway.kestrel_port}")
    result = run("pipeline", "import-journals", journals, *address)
    assert result.exit_code == 0, result.output
    verified = document(run("verify-import", journals, *address, "--json"))
    assert verified["verdict"] == "complete"
    assert run("import-journals", journals, "--data", tmp_path / "data").exit_code == 0
    ours = {line["queue"]: line["target_digest"] for queue in verified["queues"] for line in queue["lines"]}
    assert ours == {
        queue: digest for queue, (_, _, digest) in line_digests(journals, tmp_path / "data").items()
    }


def test_into_a_gateway_that_wants_a_login(
    spark: SparkSession, journals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers read the file; its name may be relative to where the command was given."""
    with running_secure_gateway(
        tmp_path / "gateway", ("SASL_SSL",), kestrel_ssl_enable="true", kestrel_auth_enable="true"
    ) as gateway:
        (tmp_path / "client.properties").write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
            f"sasl.username=bob\nsasl.password={PASSWORDS['bob']}\n"
            f"ssl.truststore.location={gateway.authority.path}\n"
        )
        monkeypatch.chdir(tmp_path)
        kestrel = f"127.0.0.1:{gateway.process.kestrel_port}"
        address = ("--bootstrap", gateway.bootstrap("SASL_SSL"), "--kestrel", kestrel)
        login = ("--client-config", "client.properties")
        result = run("pipeline", "import-journals", journals, *address, *login)
        assert result.exit_code == 0, result.output
        verified = document(run("verify-import", journals, *address, *login, "--json"))
        assert verified["verdict"] == "complete"


# --- an object store ------------------------------------------------------------------------------------


def test_into_kfs_segments(spark: SparkSession, journals: Path, tmp_path: Path) -> None:
    """A data directory that is restored from it has every record that an import has."""
    objects = tmp_path / "objects"
    objects.mkdir()
    arguments = ("--kfs", f"file://{objects}", "--staging", tmp_path / "staging")
    first = run("pipeline", "import-journals", journals, *arguments)
    assert first.exit_code == 0, first.output + first.stderr
    again = run("pipeline", "import-journals", journals, *arguments)
    assert "Already imported, nothing was done" in words(again)
    assert list((tmp_path / "staging").iterdir()) == []
    assert run("tier", "restore", f"file://{objects}", tmp_path / "restored").exit_code == 0
    assert run("import-journals", journals, "--data", tmp_path / "data").exit_code == 0
    sides = []
    for path in (objects, tmp_path / "data"):
        reader = spark.read.format("barbicel").option("subscribePattern", "queue.*|fans|empty")
        sides.append(survey_records(reader.option("includeHeaders", "true").load(str(path))))
    by_store, by_import = ([(one.topic, one.records, one.digest) for one in side] for side in sides)
    assert by_store == by_import
    assert len(by_import) == 5


# --- Parquet --------------------------------------------------------------------------------------------


def test_into_parquet(
    spark: SparkSession, journals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small pieces, so that a queue is read by several tasks; the digest is that of a plain replay."""
    monkeypatch.setattr(job, "PART_ITEMS", 20)
    target = tmp_path / "rows"
    result = document(run("pipeline", "import-journals", journals, "--parquet", target, "--check", "--json"))
    found = {
        queue["queue"]: (queue["items"], queue["open_reads"], queue["digest"]) for queue in result["queues"]
    }
    assert found == replayed(journals)
    rows = spark.read.parquet(str(target)).where("queue = 'queue-2'").orderBy("number").collect()
    assert [row.number for row in rows] == list(range(len(rows)))
    assert sum(row.is_open for row in rows) == found["queue-2"][1]


def replayed(journals: Path) -> dict[str, tuple[int, int, str | None]]:
    """The same, by one loop, and the digest by its definition."""
    found: dict[str, tuple[int, int, str | None]] = {}
    source = open_source(RealDisk(), str(journals))
    for line in (line for family in source.families for line in family.lines):
        queue = source.replay(line)
        total = [0] * 8
        for number, item in enumerate(queue.items):
            fields = [b"%d" % number, item.data, b"%d" % item.added_ms]
            fields += [] if item.expiry_ms is None else [b"%d" % item.expiry_ms]
            row = b"".join(b"+%016X" % len(field) + field for field in fields)
            row += b"-" if item.expiry_ms is None else b""
            for index, word in enumerate(struct.unpack(">8I", sha256(row).digest())):
                total[index] += word
        digest = render_digest(total) if len(queue.items) else None
        found[line.name.text] = (len(queue.items), len(queue.open), digest)
    return found


def test_parquet_that_is_there_is_not_touched(spark: SparkSession, journals: Path, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "mine").write_bytes(b"?")
    result = run("pipeline", "import-journals", journals, "--parquet", tmp_path / "rows")
    assert result.exit_code == 2
    assert "there is something already" in result.stderr
    assert [path.name for path in (tmp_path / "rows").iterdir()] == ["mine"]


def test_doubts_are_told(spark: SparkSession, journals: Path, tmp_path: Path) -> None:
    """A torn journal gives all that is whole."""
    torn = journals / "queue-0"
    torn.write_bytes(torn.read_bytes()[:-3])
    result = run("pipeline", "import-journals", journals, "--parquet", tmp_path / "rows", "--check")
    assert result.exit_code == 1, result.output
    assert "queue-0, byte" in words(result)


def test_one_target_only(journals: Path, tmp_path: Path) -> None:
    result = run(
        "pipeline", "import-journals", journals, "--parquet", tmp_path / "a", "--data", tmp_path / "b"
    )
    assert (result.exit_code, "one of --data" in result.stderr) == (2, True)
