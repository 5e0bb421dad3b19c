"""How a bucket is reached, and how long is waited for it. Knows no library: to read settings loads none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["S3Settings"]


@dataclass(frozen=True)
class S3Settings:
    """How a bucket is reached. What is None comes from the environment, under AWS's names."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    allow_http: bool = False
    path_style: bool = True
    skip_signature: bool = False
    connect_timeout_ms: int = 5_000
    # Without a byte; a body that is sent counts as none, so a part must be through in this time.
    stall_timeout_ms: int = 30_000
    timeout_ms: int = 120_000
    tries: int = 3
    retry_ms: int = 20_000
    part_bytes: int = 8 << 20  # S3 takes no part below 5 MiB but the last
    parts_at_once: int = 4
