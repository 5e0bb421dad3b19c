"""The example file: every setting with its default, commented out, so that a copy of it changes nothing.

Run as a program it prints the file: python -m barbicel.config.example > barbicel.toml.example
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from barbicel.config.queue_settings import QUEUE_SETTINGS, QueueSetting
from barbicel.config.setting import Setting
from barbicel.config.settings import SETTINGS
from barbicel.config.values import Switch, ValueType, Whole

__all__ = ["render_example"]

WIDTH = 100

HEAD = """\
# The settings of Barbicel. Copy this file to barbicel.toml and take away the # in front of what you
# change. Everything is shown with its default.
#
# A setting can also be given as an environment variable (BARBICEL_NUM_PARTITIONS=3) or as a flag
# (barbicel serve --num-partitions 3). A flag comes before a variable, a variable before this file.
#
# Names with dots can be written as they are or in quotes. In quotes they must be where one name is the
# beginning of another: "max.connections" and max.connections.per.ip.
"""

QUEUES = """
# What holds for every queue that does not say otherwise, under the names that Kestrel has for it. These
# tables are in this file only, and stay at its end: what follows the name of a table belongs to it.
# "none" sets no limit. A reload changes them while the server runs.
# [kestrel.default]
"""

QUEUE_EXAMPLES = """

# One queue. A fanout queue (orders+audit) inherits from its master, and that from kestrel.default.
# [kestrel.queues.orders]
# maxItems = 1_000_000
# openTransactionTimeout = "30 s"
# deliveryLimit = 5

# [kestrel.queues."orders+audit"]
# maxAge = "7 d"

# Names that only take sets: each set reaches every queue of the list.
# [kestrel.aliases]
# everywhere = ["orders", "invoices"]
"""


def render_example() -> str:
    """The whole text of barbicel.toml.example."""
    return (
        HEAD
        + "".join(_lines())
        + _rule("Kestrel's queues")
        + QUEUES
        + "".join(_queue_lines())
        + QUEUE_EXAMPLES
    )


def _lines() -> Iterator[str]:
    for setting in SETTINGS.values():
        if setting.section is not None:
            yield _rule(setting.section)
        yield from _described(setting)
        yield f"# {toml_key(setting.name)} = {toml_value(setting.default, setting)}\n"


def _queue_lines() -> Iterator[str]:
    for setting in QUEUE_SETTINGS.values():
        yield from _described(setting)
        yield f"# {setting.name} = {queue_value(setting)}\n"


def _rule(title: str) -> str:
    return f"\n\n# {f' {title} ':-^{WIDTH - 2}}\n"


def _described(setting: Setting | QueueSetting) -> Iterator[str]:
    yield "\n"
    for line in wrap(f"{setting.doc} Allowed: {setting.rule.allowed}.", WIDTH - 2):
        yield f"# {line}\n"


def toml_key(name: str) -> str:
    is_prefix = any(other.startswith(f"{name}.") for other in SETTINGS)
    return f'"{name}"' if is_prefix else name


def toml_value(value: Any, setting: Setting) -> str:
    text = setting.rule.render(value)
    if setting.rule.type in (ValueType.INT, ValueType.LONG):
        return f"{value:_}"
    return text if setting.rule.type is ValueType.BOOLEAN else f'"{text}"'


def queue_value(setting: QueueSetting) -> str:
    text = setting.rule.render(setting.default)
    return text if isinstance(setting.rule, Whole | Switch) else f'"{text}"'


if __name__ == "__main__":
    sys.stdout.write(render_example())
