"""The option that names a file of client settings, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from barbicel.disk import RealDisk
from barbicel.gateway.client.settings import read_client_config

__all__ = ["client_config_option", "client_settings"]

client_config_option = click.option(
    "--client-config",
    "--command-config",
    "client_file",
    metavar="FILE",
    help="How to log in, under Kafka's names: security.protocol, sasl.mechanism, sasl.username and"
    " sasl.password, ssl.truststore.location (a PEM file) and so on.",
)


def client_settings(path: str | None) -> Mapping[str, Any]:
    """What kafka-python is given. Raises BadClientConfig, DiskError."""
    return {} if path is None else read_client_config(RealDisk(), path)
