"""`barbicel doctor`: what is wrong with a machine, its settings and a data directory, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from barbicel.cli.checks.access import check_access, check_token
from barbicel.cli.checks.data import check_directory, check_groups, check_logs
from barbicel.cli.checks.finding import Check, Finding, Level, Subject
from barbicel.cli.checks.machine import (
    check_clock,
    check_java,
    check_open_files,
    check_packages,
    check_python,
)
from barbicel.cli.checks.ports import check_ports
from barbicel.cli.checks.storage import check_file_system, check_space, check_syncs
from barbicel.cli.checks.store import check_store
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.progress import progress_bar
from barbicel.cli.settings import config_option, data_option
from barbicel.config.setting import ConfigError
from barbicel.config.settings import Config
from barbicel.config.sources import load_config
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.data_layout import DataLayout

__all__ = ["Diagnosis", "describe_diagnosis", "diagnose", "doctor"]

# In the order of telling.
CHECKS: Mapping[str, Check] = {
    "python": check_python,
    "packages": check_packages,
    "open files": check_open_files,
    "clock": check_clock,
    "room": check_space,
    "file system": check_file_system,
    "syncs": check_syncs,
    "ports": check_ports,
    "data directory": check_directory,
    "logs": check_logs,
    "groups": check_groups,
    "access": check_access,
    "admin token": check_token,
    "object store": check_store,
    "java": check_java,
}
SETTINGS = "settings"


class Diagnosis(NamedTuple):
    """A finding, and the check that it is of."""

    check: str
    finding: Finding


@click.command()
@data_option
@config_option
@click.option("--deep", is_flag=True, help="Read every record of every log.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, data: str | None, path: str | None, deep: bool, as_json: bool) -> None:
    """Check this machine, the settings and the data directory, and say what to do.

    It can be used before the first start, beside a running server, and when one does not start. It writes
    small files to the data directory and the object store, and removes them.

    \b
    Examples:
      barbicel doctor
      barbicel doctor --data /var/lib/barbicel --deep

    \b
    Exit codes, the highest that applies:
      0  all is well
      1  something could be better
      2  wrong usage
      3  something has to be done
    """
    found = diagnose(data, path, deep=deep, is_quiet=as_json)
    worst = max(one.finding.level for one in found)
    if as_json:
        render_json({"level": worst.name.lower(), "findings": [describe_diagnosis(one) for one in found]})
    else:
        _tell(Page(), found, worst)
    ctx.exit(int(worst))


def diagnose(data: str | None, path: str | None, *, deep: bool, is_quiet: bool) -> list[Diagnosis]:
    disk = RealDisk()
    config, found = _load(disk, path)
    diagnoses = [Diagnosis(SETTINGS, finding) for finding in found]
    layout = DataLayout(disk.resolve(data or config.data_directory))
    subject = Subject(disk, config, layout, _holder(disk, layout), deep)
    with progress_bar("looking", len(CHECKS), is_quiet=is_quiet) as passed:
        for name, check in CHECKS.items():
            diagnoses += [Diagnosis(name, finding) for finding in _findings(check, subject)]
            passed(1)
    return diagnoses


def _load(disk: RealDisk, path: str | None) -> tuple[Config, list[Finding]]:
    """With settings that cannot be used, the rest is looked at with the usual ones."""
    try:
        config = load_config(disk, path=path, environment=os.environ)
    except ConfigError as error:
        advice = "correct it; barbicel.toml.example and docs/configuration.md have all settings"
        return Config(), [Finding(Level.FAULT, problem, advice) for problem in error.problems]
    except BarbicelError as error:
        return Config(), [Finding(Level.FAULT, str(error), "name the file with --config or BARBICEL_CONFIG")]
    changed = len(config.origins)
    return config, [
        Finding(Level.OK, f"{changed} set, all others are the defaults" if changed else "the defaults")
    ]


def _holder(disk: RealDisk, layout: DataLayout) -> str | None:
    try:
        return disk.lock_holder(layout.lock)
    except BarbicelError:
        return None  # that it cannot be read is told by the check of the directory


def _findings(check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        yield from check(subject)
    except BarbicelError as error:
        yield Finding(Level.FAULT, str(error), error.hint)


def describe_diagnosis(one: Diagnosis) -> dict[str, object]:
    return {**one.finding._asdict(), "check": one.check, "level": one.finding.level.name.lower()}


def _tell(page: Page, found: list[Diagnosis], worst: Level) -> None:
    rows = [(one.check, one.finding.level.name.lower(), one.finding.what) for one in found]
    page.line("Barbicel on this machine")
    page.table("Checks", number_table(("check", "level", "found"), rows, words=("check", "level", "found")))
    page.section(
        "What to do",
        [f"{one.check}: {one.finding.advice}" for one in found if one.finding.level and one.finding.advice],
    )
    page.ending(_ENDINGS[worst])


_ENDINGS = {
    Level.OK: "All is well.",
    Level.WARNING: "It works, and could be better.",
    Level.FAULT: "Something has to be done.",
}
