"""Checks of a data directory: whether it can be read, who has it, and whether everything in it is sound.

Beside a running server as well: nothing is changed, not even a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barbicel.cli import group_look, log_findings
from barbicel.cli.checks.finding import Finding, Level, Subject
from barbicel.cli.group_findings import Selection
from barbicel.cli.group_findings import Verdict as GroupVerdict
from barbicel.cli.log_findings import Verdict
from barbicel.cli.offsets import counted
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.cluster import Cluster
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.topic_survey import Survey, survey_entry

__all__ = ["LogLook", "check_directory", "check_groups", "check_logs", "look_at_logs"]

# Of what is damaged so much is told one by one.
MAX_TOLD = 20
# What users that were set before leave there.
BEFORE_THE_FIRST_START = {"LOCK", "access", "tmp"}
# Chapters of docs/operations.md.
A_TOPIC = "A topic.json is damaged or missing"
A_LOG = "A log is damaged"


class LogLook(NamedTuple):
    """One partition, or the file of a topic. `verdict` is None if it could not be looked at: then `problem`
    says why, and `hint` what to do."""

    path: str
    verdict: Verdict | None
    problem: str | None
    hint: str | None = None


def check_directory(subject: Subject) -> Iterator[Finding]:
    disk, layout = subject.disk, subject.layout
    if not disk.exists(layout.root):
        yield Finding(Level.OK, f"{layout.root} is not there yet: the first start makes it")
        return
    names = set(disk.names(layout.root))
    if names <= BEFORE_THE_FIRST_START:
        yield Finding(Level.OK, f"{layout.root} has no topics yet: the first start fills it")
        return
    if not disk.exists(layout.cluster_file):
        yield Finding(
            Level.FAULT,
            f"{layout.root} is no data directory: there is no cluster.json",
            "name another one with --data or data.directory, or restore the file from a backup",
        )
        return
    Cluster.open(disk, layout.cluster_file, layout.new_cluster_file)
    try:
        disk.lock_holder(layout.lock)
    except BarbicelError as error:
        yield Finding(Level.FAULT, str(error), "it is a file of the server's user, and empty: remove it")
        return
    held = "no server uses it" if subject.holder is None else f"process {subject.holder} serves it"
    yield Finding(Level.OK, f"{layout.root} can be read, and {held}")


def check_logs(subject: Subject) -> Iterator[Finding]:
    looks = list(look_at_logs(subject.disk, subject.layout, deep=subject.is_deep))
    bad = [one for one in looks if one.verdict in (None, Verdict.DAMAGED)]
    for look in bad[:MAX_TOLD]:
        yield _log_finding(look)
    if len(bad) > MAX_TOLD:
        yield Finding(
            Level.FAULT, f"{len(bad) - MAX_TOLD} more partitions are damaged", "see barbicel log verify"
        )
    if looks and not bad:
        unclean = sum(one.verdict is Verdict.RECOVERABLE for one in looks)
        told = f"{counted(len(looks), 'log')} sound"
        if unclean and subject.holder is None:
            told += f"; {unclean} not closed in order, which the next start settles, and nothing is lost"
        yield Finding(
            Level.OK, told if subject.is_deep else f"{told} at a quick look; --deep reads every record"
        )


def _log_finding(look: LogLook) -> Finding:
    if look.verdict is None:
        return Finding(Level.FAULT, f"{look.path}: {look.problem}", look.hint)
    return Finding(
        Level.FAULT,
        f"{look.path}: damaged",
        f"stop the server, take a copy, then: barbicel log verify --deep {look.path}, and log repair",
    )


def look_at_logs(disk: Disk, layout: DataLayout, *, deep: bool) -> Iterator[LogLook]:
    """Every partition of every topic that is not deleted."""
    survey = Survey()
    for entry in sorted(disk.list(layout.topics)) if disk.exists(layout.topics) else ():
        try:
            survey_entry(survey, disk, layout, entry)
        except BarbicelError as error:
            if disk.exists(f"{layout.topics}/{entry.name}"):  # a server may have removed it meanwhile
                yield _unread(error, f"{layout.topics}/{entry.name}", A_TOPIC)
    for topic in survey.live.values():
        for number in range(topic.partitions):
            yield _look(disk, layout.partition(topic, number), deep)


def _look(disk: Disk, path: str, deep: bool) -> LogLook:
    try:
        return LogLook(path, log_findings.look(disk, path, deep=deep).verdict, None)
    except BarbicelError as error:
        return _unread(error, path, A_LOG)


def _unread(error: BarbicelError, path: str, chapter: str) -> LogLook:
    see = f"see docs/operations.md, {chapter!r}"
    return LogLook(error.path or path, None, error.message, f"{error.hint}; {see}" if error.hint else see)


def check_groups(subject: Subject) -> Iterator[Finding]:
    path = subject.layout.groups
    if not subject.disk.exists(path):
        return
    found = group_look.look(subject.disk, path, Selection(None, None, None))
    if found.verdict in (GroupVerdict.SOUND, GroupVerdict.RECOVERABLE):
        yield Finding(Level.OK, f"{counted(len(found.groups), 'group')} sound")
    else:
        yield Finding(
            Level.FAULT,
            f"{path}: what groups have consumed is damaged",
            f"stop the server, take a copy, then: barbicel group verify {path}, and group repair",
        )
