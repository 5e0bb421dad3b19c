"""`barbicel bundle`: all that a bug report needs in one file, and nothing of anybody's messages."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import click

from barbicel import __version__
from barbicel.cli import group_look, log_findings
from barbicel.cli.admin import Admin, admin_at, admin_option
from barbicel.cli.amounts import bytes_text
from barbicel.cli.archive import encode_archive
from barbicel.cli.checks.data import look_at_logs
from barbicel.cli.checks.machine import package_versions
from barbicel.cli.doctor import describe_diagnosis, diagnose
from barbicel.cli.group_findings import Selection
from barbicel.cli.log_report import describe_findings
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json
from barbicel.cli.progress import progress_bar
from barbicel.cli.redaction import HIDDEN, hide, is_secret_name, secrets_in
from barbicel.cli.settings import config_option, data_option, loaded_config
from barbicel.clock import wall_clock_ms
from barbicel.config.settings import SETTINGS, Config
from barbicel.disk import Disk, RealDisk, read_file
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.data_layout import DataLayout

__all__ = ["bundle"]

LOG_TAIL_BYTES = 1 << 20
TOKEN_MAX_BYTES = 4096
MAX_LOGS = 2000
MAX_FILES = 20_000
UNIT = "barbicel"
JOURNAL_LINES = "5000"
JOURNAL_SECONDS = 20
# File in the bundle → what the server is asked for.
PAGES = {
    "server/overview.json": "/api/overview",
    "server/topics.json": "/api/topics?limit=1000",
    "server/groups.json": "/api/groups?limit=1000",
    "server/ready.txt": "/readyz",
    "server/metrics.txt": "/metrics",
}


class Source(NamedTuple):
    """What a bundle is made of."""

    disk: Disk
    config: Config
    layout: DataLayout
    admin: Admin
    log: str | None
    data: str | None
    path: str | None


@click.command()
@click.option("--output", metavar="FILE", help="Default: barbicel-bundle-TIME.tar.gz here.")
@click.option("--log", metavar="FILE", help="The server's log; default: that of the systemd unit barbicel.")
@data_option
@config_option
@admin_option
@json_option
def bundle(
    output: str | None,
    log: str | None,
    data: str | None,
    path: str | None,
    admin: str | None,
    as_json: bool,
) -> None:
    """Pack what a bug report needs: versions, settings, checks, the log's tail, metrics.

    No message is in it, no key of one, and no header. Names of topics, queues and groups are. Passwords,
    tokens and keys are hidden. Look at it before you give it away.

    \b
    Example:
      barbicel bundle --log /var/log/barbicel.log --output report.tar.gz

    \b
    Exit codes:
      0  packed; what could not be had is said in it
      2  wrong usage, or the file cannot be written
    """
    disk, config = RealDisk(), _config(path)
    layout = DataLayout(disk.resolve(data or config.data_directory))
    source = Source(disk, config, layout, admin_at(admin, config), log, data, path)
    now_ms = wall_clock_ms()
    name = f"barbicel-bundle-{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"
    target = output or f"{name}.tar.gz"
    packed = encode_archive(name, _gather(source, is_quiet=as_json), now_ms)
    _write(disk, target, packed)
    if as_json:
        render_json({"path": target, "bytes": len(packed)})
    else:
        Page().line(f"Packed {bytes_text(len(packed))} into {target}. Look at it before you give it away.")


def _config(path: str | None) -> Config:
    """With settings that cannot be used there is a report as well: doctor.json tells what is wrong."""
    try:
        return loaded_config(path)
    except (click.UsageError, BarbicelError):
        return Config()


def _write(disk: Disk, path: str, data: bytes) -> None:
    """For its owner's eyes, and never over another file."""
    if disk.exists(path):
        raise BarbicelError("there is such a file already", path=path, hint="see --output")
    file = disk.open(path, "create_private")
    try:
        file.append([data])
        file.fdatasync()
    finally:
        file.close()


def _gather(source: Source, *, is_quiet: bool) -> dict[str, bytes]:
    known = [*secrets_in(os.environ), *_token(source)]
    parts: dict[str, Callable[[Source], str]] = {
        "versions.json": _versions,
        "settings.json": _settings,
        "doctor.json": _doctor,
        "logs.json": _logs,
        "groups.json": _groups,
        "files.txt": _files,
        "log.txt": _log_tail,
        **{name: _asking(page) for name, page in PAGES.items()},
    }
    files = {}
    with progress_bar("packing", len(parts), is_quiet=is_quiet) as passed:
        for name, part in parts.items():
            files[name] = hide(_told(part, source), known).encode("utf-8", "backslashreplace")
            passed(1)
    return files


def _told(part: Callable[[Source], str], source: Source) -> str:
    """What cannot be had is told in its place."""
    try:
        return part(source)
    except BarbicelError as error:
        return f"not to be had: {error}\n"


def _asking(page: str) -> Callable[[Source], str]:
    return lambda source: source.admin.text(page)


# --- the parts ------------------------------------------------------------------------------------------


def _token(source: Source) -> list[str]:
    path = source.config.admin_token_file
    try:
        data = read_file(
            source.disk, path if path.startswith("/") else f"{source.layout.root}/{path}", TOKEN_MAX_BYTES
        )
    except BarbicelError:
        return []
    return [data.decode("ascii", "replace").strip()]


def _versions(_: Source) -> str:
    return _json(
        {
            "barbicel": __version__,
            "python": sys.version,
            "system": platform.platform(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "packages": package_versions(),
        }
    )


def _settings(source: Source) -> str:
    """Every one, with where it came from. Those of queues are in the server's pages."""
    return _json(
        {
            name: {
                "value": HIDDEN if is_secret_name(name) else source.config.text(name),
                "from": str(source.config.origin(name)),
            }
            for name in SETTINGS
        }
    )


def _doctor(source: Source) -> str:
    found = diagnose(source.data, source.path, deep=False, is_quiet=True)
    return _json([describe_diagnosis(one) for one in found])


def _logs(source: Source) -> str:
    """What `barbicel log verify` tells of each."""
    told: list[object] = []
    for look in look_at_logs(source.disk, source.layout, deep=False):
        if len(told) == MAX_LOGS:
            break
        if look.verdict is None:
            told.append({"path": look.path, "problem": look.problem})
        else:
            told.append(describe_findings(log_findings.look(source.disk, look.path, deep=False)))
    return _json(told)


def _groups(source: Source) -> str:
    """Whether they are sound: what clients have put beside their commits stays here."""
    found = group_look.look(source.disk, source.layout.groups, Selection(None, None, None))
    return _json(
        {
            "verdict": found.verdict.name.lower(),
            "groups": [{**one.key._asdict(), "verdict": one.verdict.name.lower()} for one in found.groups],
        }
    )


def _files(source: Source) -> str:
    """Names and sizes of what is in the data directory."""
    lines: list[str] = []
    for line in _walk(source.disk, source.layout.root):
        if len(lines) == MAX_FILES:
            lines.append("and more")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _walk(disk: Disk, path: str) -> Iterator[str]:
    for entry in disk.list(path):
        below = f"{path}/{entry.name}"
        if entry.is_directory:
            yield from _walk(disk, below)
        else:
            yield f"{entry.size:>16} {below}"


def _log_tail(source: Source) -> str:
    if source.log is None:
        return _journal()
    file = source.disk.open(source.log, "read")
    try:
        position = max(0, file.size() - LOG_TAIL_BYTES)
        return file.pread(LOG_TAIL_BYTES, position).decode("utf-8", "replace")
    finally:
        file.close()


def _journal() -> str:
    command = ["journalctl", "--unit", UNIT, "--lines", JOURNAL_LINES, "--no-pager", "--output", "short-iso"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=JOURNAL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BarbicelError(f"the journal cannot be read: {error}", hint="see --log") from error
    return done.stdout[-LOG_TAIL_BYTES:].decode("utf-8", "replace")


def _json(document: object) -> str:
    return json.dumps(document, indent=2)
