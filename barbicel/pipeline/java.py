"""Whether this machine has a Java that Spark runs on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from barbicel.pipeline.unavailable import PipelineUnavailable

__all__ = ["MIN_JAVA", "check_java"]

# Spark 4 needs it.
MIN_JAVA = 17
DEADLINE_S = 60
HINT = f"install Java {MIN_JAVA} or newer (a runtime without a desktop will do), or let JAVA_HOME lead to one"

_VERSION = re.compile(r'version "(?:1\.)?(?P<major>[0-9]+)')


def check_java(environment: Mapping[str, str]) -> int:
    """The major version of the Java that Spark will start. Raises PipelineUnavailable."""
    home = environment.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    try:
        told = subprocess.run(
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        ).stderr
    except OSError:
        raise PipelineUnavailable(f"there is no Java: {program} cannot be started", hint=HINT) from None
    found = _VERSION.search(told)
    if found is None:
        raise PipelineUnavailable(f"{program} does not tell its version: {told[:200]!r}", hint=HINT)
    if int(found["major"]) < MIN_JAVA:
        raise PipelineUnavailable(f"{program} is Java {found['major']}, which is too old", hint=HINT)
    return int(found["major"])
