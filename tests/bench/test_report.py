"""The page of measurements: a run of one part leaves the others as they were."""

from __future__ import annotations

from pathlib import Path

from bench.report import Measurement, render_markdown

PARTS = ("first", "second")
MACHINE = {"cores": "2"}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def row(name: str) -> list[Measurement]:
    return [Measurement(name, 1.0, "MB/s", f"what {name} compares.")]


def test_parts_that_are_measured_alone_come_to_the_same_page() -> None:
    together = render_markdown(MACHINE, {"first": row("one"), "second": row("two")}, "", PARTS)
    page = render_markdown(MACHINE, {"second": row("two")}, "", PARTS)
    page = render_markdown(MACHINE, {"first": row("before")}, page, PARTS)
    assert render_markdown(MACHINE, {"first": row("one")}, page, PARTS) == together
    assert "- one: what one compares.\n\n## second\n" in together


def test_a_part_that_is_no_more_is_left_out() -> None:
    page = render_markdown(MACHINE, {"gone": row("one")}, "", ("gone",))
    assert "gone" not in render_markdown(MACHINE, {"first": row("one")}, page, PARTS)


def test_the_page_is_as_it_would_be_written() -> None:
    """Or somebody has edited it by hand."""
    page = PAGE.read_text(encoding="utf-8")
    parts = ["keratin", "stroma", "kafka", "kestrel", "migration", "tier", "spark"]
    machine = dict(
        line[2:].split(": ", 1) for line in page.split("## Machine\n\n")[1].split("\n\n")[0].splitlines()
    )
    assert render_markdown(machine, {}, page, parts) == page
