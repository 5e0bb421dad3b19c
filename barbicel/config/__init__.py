"""Settings: one table of them, read from a file, the environment and flags, and checked once."""

from barbicel.config.listeners import Listener
from barbicel.config.setting import ConfigError, Origin, Setting
from barbicel.config.settings import SETTINGS, Config
from barbicel.config.sources import DEFAULT_FILE, FILE_VARIABLE, load_config

__all__ = [
    "DEFAULT_FILE",
    "FILE_VARIABLE",
    "SETTINGS",
    "Config",
    "ConfigError",
    "Listener",
    "Origin",
    "Setting",
    "load_config",
]
