"""The reference: every setting as a row of a table in Markdown, made from the table in settings.py.

Run as a program it prints the document: python -m barbicel.config.reference > docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from barbicel.config.example import queue_value
from barbicel.config.queue_settings import QUEUE_SETTINGS, QueueSetting
from barbicel.config.setting import Setting
from barbicel.config.settings import SETTINGS

__all__ = ["render_reference"]

HEAD = """\
# Configuration

This page is made from the table of settings:

    python -m barbicel.config.reference > docs/configuration.md

A setting comes from one of these places; what is further down wins:

| where | how |
|---|---|
| the default | as below |
| a file | `barbicel.toml` where the server is started, or what `--config` or `BARBICEL_CONFIG` names |
| the environment | `BARBICEL_` and the name in capitals, `_` for `.`: `BARBICEL_NUM_PARTITIONS=3` |
| a flag of `serve` | the name with `-` for `.`: `barbicel serve --num-partitions 3` |

[barbicel.toml.example](../barbicel.toml.example) is a file of all settings to start from. Names are
Kafka's, where Kafka has one. A name that is no setting is refused, and so is a value that is not
allowed: the server tells all that is wrong at once, and does not start. `barbicel doctor` tells the same
beforehand, and `GET /api/settings` where each value of a running server came from.

In the file, names with dots can be written as they are or in quotes. In quotes they must be where one
name is the beginning of another: `"max.connections"` and `max.connections.per.ip`.

What a topic has of its own is set with `barbicel topic create --set` and `barbicel topic alter --set`;
`barbicel topic describe TOPIC --all` shows all of it. What is not set on a topic follows the server's
settings.
"""

QUEUES = """
## Kestrel's queues

These are in the file only, under the names that Kestrel has for them: in `[kestrel.default]` for every
queue, and in `[kestrel.queues.NAME]` for one. A fanout inherits from its queue, and that from the
default. `none` sets no limit. `reload` changes them while the server runs.

```toml
[kestrel.default]
openTransactionTimeout = "10 min"

[kestrel.queues.orders]
maxItems = 1_000_000

[kestrel.queues."orders+audit"]
maxAge = "7 d"

[kestrel.aliases]
everywhere = ["orders", "invoices"]
```

"""

TABLE = "| setting | default | allowed | meaning |\n|---|---|---|---|\n"


def render_reference() -> str:
    """The whole text of docs/configuration.md."""
    return HEAD + "".join(_sections()) + QUEUES + TABLE + "".join(map(_queue_row, QUEUE_SETTINGS.values()))


def _sections() -> Iterator[str]:
    for setting in SETTINGS.values():
        if setting.section is not None:
            yield f"\n## {setting.section}\n\n{TABLE}"
        yield _row(setting)


def _row(setting: Setting) -> str:
    default = setting.rule.render(setting.default)
    return _cells(setting.name, f"`{default}`" if default else "nothing", setting.rule.allowed, setting.doc)


def _queue_row(setting: QueueSetting) -> str:
    return _cells(setting.name, f"`{queue_value(setting)}`", setting.rule.allowed, setting.doc)


def _cells(name: str, default: str, allowed: str, doc: str) -> str:
    cells = (f"`{name}`", default, _plain(allowed), _plain(doc))
    return f"| {' | '.join(cells)} |\n"


def _plain(text: str) -> str:
    """A text in which Markdown finds nothing of its own."""
    for char in "\\|*_<>`":
        text = text.replace(char, f"\\{char}")
    return text


if __name__ == "__main__":
    sys.stdout.write(render_reference())
