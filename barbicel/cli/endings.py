"""The ways in which a command ends other than with its answer: each one has its line and its exit code.

The exit codes 0 to 3 are answers, which README.md explains. What goes wrong with the program, its output or
its terminal must never look like one of them, so it has codes above 63: those of sysexits.h, and those with
which a shell tells that a signal ended a program.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from traceback import extract_tb

import click
from click.exceptions import Exit

from barbicel.cli.plain import plain
from barbicel.errors import BarbicelError

__all__ = [
    "EXIT_CRASHED",
    "EXIT_INTERRUPTED",
    "EXIT_NO_READER",
    "EXIT_OUTPUT_FAILED",
    "EXIT_REFUSED",
    "settle_output",
    "translated",
    "unwritable_exit_code",
]

# As wrong usage, which Click ends with this code.
EXIT_REFUSED = 2
EXIT_CRASHED = 70  # EX_SOFTWARE
EXIT_OUTPUT_FAILED = 74  # EX_IOERR
EXIT_INTERRUPTED = 128 + 2  # SIGINT
EXIT_NO_READER = 128 + 13  # SIGPIPE


class _Refused(click.ClickException):
    exit_code = EXIT_REFUSED


class _Crashed(click.ClickException):
    exit_code = EXIT_CRASHED


class _OutputFailed(click.ClickException):
    exit_code = EXIT_OUTPUT_FAILED


class _Interrupted(click.ClickException):
    exit_code = EXIT_INTERRUPTED


@contextmanager
def translated() -> Iterator[None]:
    """Turns whatever is raised inside into what Click shows as one line, with the exit code that is due."""
    try:
        yield
    except (click.ClickException, click.Abort, Exit):
        raise
    except BarbicelError as error:
        raise _Refused(plain(str(error))) from error
    except OSError as error:
        # Files are used through barbicel/disk.py alone, whose errors are caught above: this is the output's.
        if unwritable_exit_code(error) == EXIT_NO_READER:
            raise Exit(EXIT_NO_READER) from error
        raise _OutputFailed(f"the output cannot be written: {error.strerror or error}") from error
    except KeyboardInterrupt as error:
        raise _Interrupted("interrupted") from error
    except Exception as error:
        raise _Crashed(plain(_crash_text(error))) from error


def _crash_text(error: Exception) -> str:
    place = extract_tb(error.__traceback__)[-1]
    where = f"{PurePosixPath(place.filename).name}, line {place.lineno}"
    return f"this is a fault of barbicel itself: {type(error).__name__}: {error} ({where})"


def unwritable_exit_code(error: OSError) -> int:
    """For an output that does not take what is to be said. Nobody is told if nobody reads."""
    return EXIT_NO_READER if error.errno == errno.EPIPE else EXIT_OUTPUT_FAILED


def settle_output() -> None:
    """To be called last. What could not be written must not be tried again when the interpreter ends: it
    would complain, and put its own exit code in the place of ours."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            with suppress(OSError):
                stream.close()
