"""`barbicel serve`: settings from flags, environment and file, and what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barbicel.cli.main import cli
from barbicel.config.settings import SETTINGS, Config


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that a server would have been started with."""
    configs: list[Config] = []

    def run(disk: Any, config: Config, load: object) -> None:
        configs.append(config)

    monkeypatch.setattr("barbicel.cli.serve.run", run)
    monkeypatch.setattr("barbicel.cli.serve.logging.basicConfig", lambda **_: None)
    return configs


def serve(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["serve", *arguments], env=environment)


def test_without_anything_the_defaults_hold(
    served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert serve().exit_code == 0
    assert served == [Config()]


def test_what_comes_later_wins(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "barbicel.toml"
    file.write_text('"num.partitions" = 2\n"node.id" = 2\n"flush.ms" = 2\n')
    result = serve("--config", str(file), "--node-id", "4", BARBICEL_NODE_ID="3", BARBICEL_FLUSH_MS="3")
    assert result.exit_code == 0, result.output
    (config,) = served
    assert (config.num_partitions, config.flush_ms, config.node_id) == (2, 3, 4)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--num-partitions", "0"], "--num-partitions"),
        (["--durability", "maybe"], "durability"),
        (["--listeners", "nonsense"], "listeners"),
        (["--config", "/nowhere/barbicel.toml"], "/nowhere/barbicel.toml"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_started(
    served: list[Config], arguments: list[str], problem: str
) -> None:
    result = serve(*arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr
    assert not served


def test_every_problem_is_said_at_once(served: list[Config]) -> None:
    result = serve("--num-partitions", "0", "--node-id", "x")
    assert "--num-partitions" in result.stderr
    assert "--node-id" in result.stderr
    assert not served


def test_every_setting_has_a_flag_with_its_meaning() -> None:
    text = " ".join(serve("--help").output.split())
    for setting in SETTINGS.values():
        assert setting.flag in text


def test_serving_imports_nothing_of_the_other_verbs() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from barbicel.cli.main import cli;"
        " cli(['serve', '--help'], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"rich", "barbicel.cli.log_inspect"} & set(done.stdout.split())
