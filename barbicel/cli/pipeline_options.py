"""What the verbs of `barbicel pipeline` share: where Spark is, and what is read how."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

import click

from barbicel.cli.options import parse_pairs
from barbicel.errors import BarbicelError

if TYPE_CHECKING:
    from barbicel.pipeline.session import Session

__all__ = ["opened_session", "reading_option", "spark_options", "store_options"]

_SPARK_OPTIONS = (
    click.option(
        "--master",
        metavar="URL",
        help="Spark's master; default: what spark-submit or Spark's settings say, or all cores here.",
    ),
    click.option(
        "--conf", "settings", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's; repeatable."
    ),
)


_STORE_OPTIONS = (
    click.argument("store", metavar="STORE"),
    click.option("--topic", "topics", metavar="NAME", multiple=True, help="A topic; repeatable."),
    click.option("--pattern", metavar="REGEX", help="All topics whose names match, also later ones."),
)

reading_option = click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="For reading, as of spark.read: store=s3://bucket/prefix, kafka.security.protocol; repeatable.",
)


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """`store`, `topics` and `pattern`."""
    for option in reversed(_STORE_OPTIONS):
        command = option(command)
    return command


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """`master` and `settings`, for `opened_session`; and what fails in Spark is told without its stacks."""
    command = _plainly(command)
    for option in reversed(_SPARK_OPTIONS):
        command = option(command)
    return command


def _plainly(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def carry_out(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark.", "py4j.")):
                raise
            from barbicel.pipeline.jobs.reasons import reason_of

            raise BarbicelError(f"Spark has failed: {reason_of(error)}") from error

    return carry_out


def opened_session(verb: str, master: str | None, settings: tuple[str, ...]) -> Session:
    """Raises PipelineUnavailable for what the machine lacks."""
    from barbicel.pipeline import spark_session

    return spark_session(f"barbicel {verb}", master=master, settings=parse_pairs("--conf", settings))
