"""docs/configuration.md is made from the table of settings, and is not behind it."""

from __future__ import annotations

from pathlib import Path

from barbicel.config import SETTINGS
from barbicel.config.queue_settings import QUEUE_SETTINGS
from barbicel.config.reference import render_reference

ROOT = Path(__file__).parent.parent.parent


def test_the_document_is_the_table() -> None:
    committed = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert committed == render_reference(), "run: python -m barbicel.config.reference > docs/configuration.md"


def test_every_setting_has_one_row_of_four_cells() -> None:
    rows = [line for line in render_reference().splitlines() if line.startswith("| `")]
    assert len(rows) == len(SETTINGS) + len(QUEUE_SETTINGS)
    for line, name in zip(rows, [*SETTINGS, *QUEUE_SETTINGS], strict=True):
        assert line.startswith(f"| `{name}` | ")
        assert line.replace("\\|", "").count("|") == 5


def test_no_default_is_left_out() -> None:
    assert "| `data.directory` | `./data` | text | " in render_reference()
    assert "| `advertised.listeners` | nothing | " in render_reference()
