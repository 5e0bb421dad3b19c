"""What reading the settings again changes in a running server: queues and aliases, as in Kestrel."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from barbicel.config.settings import SETTINGS, Config

__all__ = ["Reloaded", "take_reload"]


class Reloaded(NamedTuple):
    """`needs_restart` names the settings that changed in their sources and hold only after a restart."""

    config: Config
    needs_restart: tuple[str, ...]


def take_reload(running: Config, loaded: Config) -> Reloaded:
    """The settings in force after a reload."""
    changed = tuple(name for name in SETTINGS if loaded.value(name) != running.value(name))
    return Reloaded(replace(running, kestrel_queues=loaded.kestrel_queues), changed)
