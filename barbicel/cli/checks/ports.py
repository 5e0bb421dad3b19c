"""Checks of the ports: free for a server that does not run, and answering if it does."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from typing import NamedTuple

from barbicel.cli.checks.finding import Finding, Level, Subject
from barbicel.cli.settings import reachable_host
from barbicel.config.settings import Config

__all__ = ["check_ports"]

CONNECT_SECONDS = 3.0


class Port(NamedTuple):
    """`setting` is where it is changed. Port 0 is the system's choice."""

    setting: str
    host: str
    port: int

    @property
    def text(self) -> str:
        return f"{self.host or '0.0.0.0'}:{self.port}"


def _ports(config: Config) -> Iterator[Port]:
    for listener in config.listeners:
        yield Port("listeners", listener.host, listener.port)
    if config.kestrel_enable:
        yield Port("kestrel.port", config.kestrel_host, config.kestrel_port)
        if config.kestrel_text_enable:
            yield Port("kestrel.text.port", config.kestrel_host, config.kestrel_text_port)
    if config.admin_enable:
        yield Port("admin.port", config.admin_host, config.admin_port)


def check_ports(subject: Subject) -> Iterator[Finding]:
    look = _look_free if subject.holder is None else _look_served
    for port in _ports(subject.config):
        if port.port:
            yield look(port)


def _look_free(port: Port) -> Finding:
    family = socket.AF_INET6 if ":" in port.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((port.host, port.port))
    except OSError as error:
        return Finding(Level.FAULT, f"{port.text}: {error.strerror or error}", _bind_advice(port, error))
    return Finding(Level.OK, f"{port.text} is free ({port.setting})")


def _bind_advice(port: Port, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"another program has it (ss -ltnp 'sport = :{port.port}'): stop it, or change {port.setting}"
    if error.errno == errno.EACCES:
        return f"ports below 1024 need a privilege: change {port.setting}"
    return f"this machine has no such address: change {port.setting}"


def _look_served(port: Port) -> Finding:
    try:
        socket.create_connection((reachable_host(port.host), port.port), CONNECT_SECONDS).close()
    except OSError as error:
        return Finding(
            Level.FAULT,
            f"{port.text} does not answer: {error.strerror or error}",
            f"the server runs with other settings than these ({port.setting}), or is starting: see its log",
        )
    return Finding(Level.OK, f"{port.text} answers ({port.setting})")
