"""Why something has failed in a worker, without the stacks of Python and Java around it."""

from __future__ import annotations

import re

__all__ = ["reason_of"]

# Spark's own messages carry the stack of the JVM behind them.
TOLD_LINES = 12
_OWN_ERROR = re.compile(r"^(?:[\w.]*\.)?barbicel\.[\w.]+: (?P<message>.+)$", re.MULTILINE)


def reason_of(error: BaseException) -> str:
    """What our own code has said there, with its hint; or else how Spark begins to tell it."""
    told = _OWN_ERROR.findall(str(error))
    return str(told[-1]) if told else "\n".join(str(error).splitlines()[:TOLD_LINES])
