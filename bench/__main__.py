"""The command: which parts to run, and where their results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from bench.kafka.part import KAFKA
from bench.keratin.part import KERATIN
from bench.kestrel.part import KESTREL
from bench.machine import describe_machine
from bench.migration.part import MIGRATION
from bench.report import Measurement, print_table, render_markdown, write_json
from bench.rounds import OUT, scratch_directory
from bench.spark.part import SPARK
from bench.stroma.part import STROMA
from bench.tier.part import TIER
from tests.rig.jars import RigUnavailable

# A part is a row of functions that measure in the directory they are given.
PARTS: dict[str, Sequence[Callable[[str], list[Measurement]]]] = {
    "keratin": KERATIN,
    "stroma": STROMA,
    "kafka": KAFKA,
    "kestrel": KESTREL,
    "migration": MIGRATION,
    "tier": TIER,
    "spark": SPARK,
}


@click.command()
@click.argument("part", required=False)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the tables of this run to this file; those of other parts stay as they are.",
)
def main(part: str | None, markdown: Path | None) -> None:
    """Run one PART, or all of them, and write bench/out/<part>.json."""
    if part is not None and part not in PARTS:
        raise click.BadParameter(f"there is no part {part!r}; there are: {', '.join(PARTS)}")
    results: dict[str, list[Measurement]] = {}
    for name in PARTS if part is None else [part]:
        with scratch_directory() as directory:
            results[name] = _measure(name, directory)
        print_table(name, results[name])
        write_json(OUT / f"{name}.json", results[name])
    if markdown is not None:
        page = markdown.read_text(encoding="utf-8") if markdown.exists() else ""
        text = render_markdown(describe_machine(OUT), results, page, [*PARTS])
        markdown.write_text(text, encoding="utf-8")


def _measure(part: str, directory: str) -> list[Measurement]:
    rows: list[Measurement] = []
    for measure in PARTS[part]:
        print(f"{part}: {measure.__name__.removeprefix('measure_')} ...", flush=True)
        try:
            rows += measure(directory)
        except RigUnavailable as error:
            print(f"{part}: left out, {error}", flush=True)
    return rows


if __name__ == "__main__":
    main(prog_name="python -m bench")
