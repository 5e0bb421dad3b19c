"""Reading settings: the file, then the environment, then flags; what comes later wins.

Every source is read to its end before anything is refused, so that a user sees all that is wrong at once. An
unknown name is wrong: a misspelled limit must not be a limit that silently does not hold.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from barbicel.config.queue_tables import QUEUE_TABLES, QueueTables, read_queue_tables
from barbicel.config.setting import ConfigError, Origin, Setting, shown, suggestion
from barbicel.config.settings import SETTINGS, Config
from barbicel.config.values import Switch, ValueType, Whole
from barbicel.disk import Disk, read_file

__all__ = ["DEFAULT_FILE", "FILE_VARIABLE", "load_config"]

DEFAULT_FILE = "barbicel.toml"
FILE_VARIABLE = "BARBICEL_CONFIG"
MAX_FILE_BYTES = 1 << 20

_PREFIX = "BARBICEL_"
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS.values()}
# Kubernetes sets these in every pod for a service whose name begins with "barbicel".
_SERVICE_LINK = re.compile(
    r"BARBICEL(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)",
    re.ASCII,
)


def load_config(
    disk: Disk,
    *,
    path: str | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """The settings in force; raises ConfigError with everything that is wrong.

    The file is `path`, or what BARBICEL_CONFIG names: then it must exist; or else barbicel.toml where the
    server is started, if there is one. `flags` has texts by the names of settings.
    """
    found = _Findings()
    path = path or environment.get(FILE_VARIABLE)
    if path is None and disk.exists(DEFAULT_FILE):
        path = DEFAULT_FILE
    if path is not None:
        found.take_file(path, _read_toml(disk, path))
    found.take_environment(environment)
    found.take_flags(flags)
    return found.config()


def _read_toml(disk: Disk, path: str) -> dict[str, Any]:
    data = read_file(disk, path, MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError([f"{path}: larger than {MAX_FILE_BYTES} bytes, this is no file of settings"])
    try:
        # An editor's byte order mark is not the user's mistake.
        return tomllib.loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise ConfigError([f"{path}: {error}{_hint(error)}"]) from None


def _hint(error: ValueError) -> str:
    """max.connections is a setting and max.connections.per.ip another, which TOML cannot have unquoted."""
    if "Cannot overwrite" in str(error):
        return (
            ' (is a name here the beginning of another one? Then write it in quotes: "max.connections" = 100)'
        )
    return ""


class _Findings:
    """Values by name with their origins, and what was wrong on the way."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.queues = QueueTables()
        self.origins: dict[str, Origin] = {}
        self.problems: list[str] = []

    def take_file(self, path: str, content: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        for name, value in _flatten(self._take_queues(path, content)):
            origin = Origin("file", f"{path}: {name}")
            if name in seen:
                self.problems.append(f"{origin} is set twice, once in quotes and once without")
            elif name not in SETTINGS:
                self.problems.append(f"{origin} is no setting{suggestion(name, SETTINGS)}")
            else:
                seen.add(name)
                self._take(SETTINGS[name], value, origin)

    def _take_queues(self, path: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep what is said of queues, whose names may hold anything; the rest of the file is returned."""
        kestrel = content.get("kestrel")
        if not isinstance(kestrel, dict):
            return content
        self.queues, problems = read_queue_tables(kestrel, path)
        self.problems.extend(problems)
        rest = {name: value for name, value in kestrel.items() if name not in QUEUE_TABLES}
        return {**content, "kestrel": rest}

    def take_environment(self, environment: Mapping[str, str]) -> None:
        for variable in sorted(environment):
            if not variable.startswith(_PREFIX) or variable == FILE_VARIABLE:
                continue
            if _is_service_link(variable, environment[variable]):
                continue
            origin = Origin("environment", f"variable {variable}")
            if variable in _BY_VARIABLE:
                self._take_text(_BY_VARIABLE[variable], environment[variable], origin)
            else:
                self.problems.append(f"{origin} is no setting{suggestion(variable, _BY_VARIABLE)}")

    def take_flags(self, flags: Mapping[str, str]) -> None:
        for name, text in flags.items():
            if name not in SETTINGS:
                self.problems.append(f"{name} is no setting{suggestion(name, SETTINGS)}")
            else:
                self._take_text(SETTINGS[name], text, Origin("flag", f"flag {SETTINGS[name].flag}"))

    def config(self) -> Config:
        if self.problems:
            raise ConfigError(self.problems)
        attributes = {SETTINGS[name].attribute: value for name, value in self.values.items()}
        return Config(**attributes, kestrel_queues=self.queues, origins=MappingProxyType(self.origins))

    def _take(self, setting: Setting, value: object, origin: Origin) -> None:
        """A value of the file: numbers and switches have their own types there, all others are text."""
        if isinstance(setting.rule, Whole | Switch):
            self._keep(setting, value, origin, setting.rule.check)
        elif isinstance(value, str):
            self._take_text(setting, value, origin)
        elif setting.rule.type is ValueType.LIST and isinstance(value, list):
            self._take_text(setting, ",".join(map(str, value)), origin)
        else:
            self._refuse(setting, value, origin)

    def _take_text(self, setting: Setting, text: str, origin: Origin) -> None:
        self._keep(setting, text, origin, setting.rule.parse)

    def _keep(self, setting: Setting, given: Any, origin: Origin, understand: Any) -> None:
        try:
            self.values[setting.name] = understand(given)
            self.origins[setting.name] = origin
        except ValueError:
            self._refuse(setting, given, origin)

    def _refuse(self, setting: Setting, given: object, origin: Origin) -> None:
        self.problems.append(f"{origin} is {shown(given)}, allowed is {setting.rule.allowed}")


def _is_service_link(variable: str, text: str) -> bool:
    """BARBICEL_KESTREL_PORT is a setting, and what a service "barbicel-kestrel" has is "tcp://10.0.0.1:22133"."""
    return bool(_SERVICE_LINK.fullmatch(variable)) and (variable not in _BY_VARIABLE or "://" in text)


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names, however they were written: num.partitions = 3, "num.partitions" = 3, or [num]."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value
