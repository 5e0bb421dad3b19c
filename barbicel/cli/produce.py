"""`barbicel produce`: messages into a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click
from kafka import codec as kafka_codecs
from kafka.errors import KafkaError

from barbicel.cli.inputs import input_lines, whole_input
from barbicel.cli.offsets import counted
from barbicel.cli.options import given_name, json_option, parse_pairs
from barbicel.cli.page import Page, render_json
from barbicel.cli.progress import progress_bar
from barbicel.cli.record_input import BadRecord, parse_json_record, parse_line_record
from barbicel.cli.record_output import Record
from barbicel.cli.server import Server, ServerRefused, asking, refusal_text, server_options
from barbicel.disk import RealDisk

__all__ = ["produce"]

# Codec → whether kafka-python can do it here, and the package that it needs for it.
CODECS: dict[str, tuple[Callable[[], bool], str]] = {
    "none": (lambda: True, ""),
    "gzip": (kafka_codecs.has_gzip, ""),
    "snappy": (kafka_codecs.has_snappy, "python-snappy"),
    "lz4": (kafka_codecs.has_lz4, "lz4"),
    "zstd": (kafka_codecs.has_zstd, "zstandard"),
}
# The server decides what is too large.
MAX_REQUEST_BYTES = 256 << 20
METADATA_MS = 15_000
LINGER_MS = 5


@dataclass
class Sent:
    """What was answered: partition → its first and last offset."""

    records: int = 0
    bytes: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    failure: BaseException | None = None

    def stored(self, size: int, told: Any) -> None:
        first, last = self.offsets.get(told.partition, (told.offset, told.offset))
        self.offsets[told.partition] = (min(first, told.offset), max(last, told.offset))
        self.records += 1
        self.bytes += size

    def failed(self, error: BaseException) -> None:
        self.failure = self.failure or error


@click.command()
@click.argument("topic", metavar="TOPIC", callback=given_name)
@click.option("--file", metavar="FILE", help="Take messages from here, one a line; default: the input.")
@click.option("--whole", is_flag=True, help="All of the file or the input is one message.")
@click.option("--format", "form", type=click.Choice(["line", "json"]), default="line", help="What a line is.")
@click.option("--key", metavar="TEXT", help="The key of all messages.")
@click.option("--key-separator", metavar="TEXT", help="A line is a key, this, and the value.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Of all messages; repeatable.")
@click.option("--codec", type=click.Choice(list(CODECS)), default="none", show_default=True)
@click.option("--partition", type=click.IntRange(0), help="Default: by the key, or in turn.")
@server_options
@json_option
def produce(
    topic: str,
    file: str | None,
    whole: bool,
    form: str,
    key: str | None,
    key_separator: str | None,
    headers: Sequence[str],
    codec: str,
    partition: int | None,
    server: Server,
    as_json: bool,
) -> None:
    """Send messages to TOPIC: the lines of a file or of the input.

    With --format json a line is what consume --format json prints. All is stored as safely as the
    server's settings say when the command ends with 0.

    \b
    Examples:
      echo "hello" | barbicel produce greetings
      barbicel produce orders --file orders.txt --key-separator : --header source=import --codec zstd
      barbicel consume orders --json | barbicel produce orders-copy --format json

    \b
    Exit codes:
      0  all are stored
      2  wrong usage, or the server refuses a message or does not answer; some may be stored
    """
    _check_usage(whole, form, key, key_separator, codec)
    fixed = [(name, value.encode()) for name, value in parse_pairs("--header", headers).items()]
    if form == "json":
        parse = partial(parse_json_record, headers=fixed)
    else:
        separator = None if key_separator is None else key_separator.encode()
        given = None if key is None else key.encode()
        parse = partial(parse_line_record, separator=separator, key=given, headers=fixed)
    size = None if file is None else RealDisk().size(file)
    sent = Sent()
    with progress_bar(f"sending to {topic}", size, is_quiet=as_json, in_bytes=True) as passed:
        lines = whole_input(file) if whole else input_lines(file, passed)
        _send_all(server, topic, partition, codec, _parsed(lines, parse), sent)
    _tell(topic, sent, as_json)


def _check_usage(whole: bool, form: str, key: str | None, separator: str | None, codec: str) -> None:
    if key is not None and separator is not None:
        raise click.UsageError("--key or --key-separator, not both")
    if form == "json" and (whole or key is not None or separator is not None):
        raise click.UsageError("--format json has its keys in it, one message a line")
    if separator == "":
        raise click.UsageError("--key-separator is empty")
    is_there, package = CODECS[codec]
    if not is_there():
        raise click.UsageError(f"--codec {codec} needs the Python package {package}: pip install {package}")


def _parsed(lines: Iterator[bytes], parse: Callable[[bytes], Record]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        try:
            yield parse(line)
        except BadRecord as error:
            raise BadRecord(f"line {number}: {error.message}", hint="what was before it is stored") from None


def _send_all(
    server: Server, topic: str, partition: int | None, codec: str, records: Iterator[Record], sent: Sent
) -> None:
    """On return all is stored. Raises ServerRefused."""
    producer = server.producer(
        acks="all",
        compression_type=None if codec == "none" else codec,
        max_request_size=MAX_REQUEST_BYTES,
        max_block_ms=METADATA_MS,
        linger_ms=LINGER_MS,
    )
    try:
        for record in records:
            with asking(server):
                _send(producer, topic, partition, record, sent)
            if sent.failure is not None:
                break
        interrupted = _flush(producer)
    finally:
        producer.close()
    failure = sent.failure or interrupted
    if isinstance(failure, KafkaError):
        stored = counted(sent.records, "message")
        raise ServerRefused(f"{topic}: {refusal_text(failure)}; {stored} stored", path=server.address)
    if failure is not None:
        raise failure


def _flush(producer: Any) -> BaseException | None:
    """What kept it from waiting to the end. It says less than the messages' own errors, which come later: a
    batch that is too large is split, and then it does not know what it waits for."""
    try:
        producer.flush()
    except KafkaError as error:
        found: BaseException = error
        return found
    return None


def _send(producer: Any, topic: str, partition: int | None, record: Record, sent: Sent) -> None:
    try:
        answer = producer.send(
            topic, record.value, key=record.key, headers=list(record.headers), partition=partition
        )
    except ValueError as error:  # a name that no topic can have, a partition that is not there
        raise ServerRefused(str(error)) from error
    answer.add_callback(partial(sent.stored, len(record.key or b"") + len(record.value or b"")))
    answer.add_errback(sent.failed)


def _tell(topic: str, sent: Sent, as_json: bool) -> None:
    ranges = [
        {"partition": number, "first_offset": first, "last_offset": last}
        for number, (first, last) in sorted(sent.offsets.items())
    ]
    if as_json:
        render_json({"topic": topic, "records": sent.records, "bytes": sent.bytes, "partitions": ranges})
    else:
        where = ", ".join(f"{row['partition']} up to offset {row['last_offset']}" for row in ranges)
        Page().line(
            f"Stored {counted(sent.records, 'message')} in {topic}{f': partition {where}' if where else ''}."
        )
