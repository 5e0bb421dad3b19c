"""The examples run as they stand, and README.md shows them as they are."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
KERATIN_LOG = ROOT / "examples" / "keratin_log.py"
STROMA_GROUPS = ROOT / "examples" / "stroma_groups.py"


def run(example: Path, directory: Path) -> list[str]:
    """The lines that an example prints when it is started in `directory`."""
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def body(example: Path) -> str:
    """An example without its docstring and what stands before it."""
    text = example.read_text(encoding="utf-8")
    last_line = ast.parse(text).body[0].end_lineno
    return "".join(text.splitlines(keepends=True)[last_line:]).strip("\n")


def test_the_log_example_runs_and_runs_again_on_what_it_left(tmp_path: Path) -> None:
    first, second = run(KERATIN_LOG, tmp_path), run(KERATIN_LOG, tmp_path)
    assert first[:4] == [
        "offset 1: b'paid', headers b'EUR'",
        "scanned 0: b'ordered'",
        "scanned 1: b'paid'",
        "scanned 2: b'sent'",
    ]
    # All three may have come within one millisecond.
    assert re.fullmatch(r"first record at or after \d+ ms: offset [012]", first[4])
    assert first[5:] == ["the log holds offsets 0 to 2"]
    assert second[1:4] == ["scanned 3: b'ordered'", "scanned 4: b'paid'", "scanned 5: b'sent'"]
    assert second[5:] == ["the log holds offsets 0 to 5"]


def test_the_readme_shows_the_log_example() -> None:
    blocks = re.findall(
        r"^```python\n(.*?)\n```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M
    )
    assert body(KERATIN_LOG) in blocks


def test_the_groups_example_runs_and_runs_again_on_what_it_left(tmp_path: Path) -> None:
    for position in (2, 5):
        assert run(STROMA_GROUPS, tmp_path) == [
            "committed, 0 groups failed; 2 messages are not acked",
            "expired b'ordered' after delivery 1",
            "available b'ordered': 1 message",
            "available b'paid': 1 message",
            f"reports go on at {position}, b'report 7'; lag 1",
        ]
