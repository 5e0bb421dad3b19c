"""Settings of what Kestrel clients use: rows of the table in settings.py."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.config.setting import row
from barbicel.config.values import INT_MAX, LONG_MAX, Switch, Text, Whole

__all__ = ["KestrelSettings"]

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class KestrelSettings:
    """A field is a setting."""

    kestrel_enable: bool = row(
        "kestrel.enable",
        True,
        Switch(),
        "Kestrel clients are served, with the memcache protocol.",
        section="Kestrel clients (a queue's own settings are at the end of this file)",
    )
    kestrel_host: str = row(
        "kestrel.host",
        "127.0.0.1",
        Text(),
        "The address where Kestrel clients connect. Only this machine can, unless you change it: 0.0.0.0 lets"
        " everybody in who can reach the port.",
    )
    kestrel_port: int = row(
        "kestrel.port",
        22133,
        Whole(0, 0xFFFF),
        "The port of the memcache protocol; 0 lets the system choose one.",
    )
    kestrel_text_enable: bool = row(
        "kestrel.text.enable", False, Switch(), "Kestrel's text protocol is served too, at the same address."
    )
    kestrel_text_port: int = row(
        "kestrel.text.port",
        2222,
        Whole(0, 0xFFFF),
        "The port of the text protocol; 0 lets the system choose one.",
    )
    kestrel_max_connections: int = row(
        "kestrel.max.connections",
        20_000,
        Whole(1),
        "Connections of Kestrel clients at a time. Each needs an open file, see ulimit -n.",
    )
    kestrel_max_connections_per_ip: int = row(
        "kestrel.max.connections.per.ip",
        INT_MAX,
        Whole(1),
        "Connections of Kestrel clients at a time from one address.",
    )
    kestrel_client_timeout_ms: int = row(
        "kestrel.client.timeout.ms",
        600_000,
        Whole(0, LONG_MAX),
        "A connection on which nothing happens is closed after this time; 0 never closes one. A client that"
        " waits for an item or has one open is not idle.",
    )
    kestrel_max_line_bytes: int = row(
        "kestrel.max.line.bytes",
        8 * KIB,
        Whole(512, MIB),
        "The longest line of a command. A connection that sends a longer one is closed.",
    )
    kestrel_max_item_bytes: int = row(
        "kestrel.max.item.bytes",
        64 * MIB,
        # A record of the log has room for 128 MiB with everything around it.
        Whole(1, 127 * MIB),
        "The largest item, whatever a queue's maxItemSize allows. A larger one is answered NOT_STORED and not"
        " kept in memory on the way.",
    )
    kestrel_max_open_transactions: int = row(
        "kestrel.max.open.transactions",
        100,
        Whole(1),
        "Items of one queue that one connection may have open at a time.",
    )
    kestrel_allow_shutdown: bool = row(
        "kestrel.allow.shutdown", False, Switch(), "Any client may stop the server, with SHUTDOWN."
    )
    kestrel_allow_reload: bool = row(
        "kestrel.allow.reload",
        False,
        Switch(),
        "Any client may have the settings of queues and aliases read again, with RELOAD.",
    )
    kestrel_allow_flush_all: bool = row(
        "kestrel.allow.flush.all", False, Switch(), "Any client may empty all queues, with FLUSH_ALL."
    )
    kestrel_noreply: bool = row(
        "kestrel.noreply",
        True,
        Switch(),
        "A command with noreply is not answered. Kestrel itself answered it, which confuses clients.",
    )
    kestrel_keep_flags: bool = row(
        "kestrel.keep.flags",
        True,
        Switch(),
        "An item is given back with the flags of its set. Kestrel itself always answered 0.",
    )
    kestrel_echo_key: bool = row(
        "kestrel.echo.key",
        False,
        Switch(),
        "VALUE repeats the key as the client wrote it (orders/open), for clients that compare it, such as"
        " pymemcache. Kestrel itself answered the queue's name alone.",
    )
    kestrel_expiration_timer_frequency_ms: int = row(
        "kestrel.expiration.timer.frequency.ms",
        1000,
        Whole(0, LONG_MAX),
        "How often expired items are looked for in all queues; 0 finds them only when a queue is read.",
    )
