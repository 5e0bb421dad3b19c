"""From a URL to an object store: the table of schemes and of their options.

`s3://bucket/prefix` is a bucket; `file:///path`, or a path alone, is a directory. The library for S3 is
loaded only when such a URL is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from barbicel.config.tier_settings import FROM_THE_ENVIRONMENT, has_user_info
from barbicel.disk import Disk
from barbicel.errors import StoreRefused
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.object_store import ObjectStore, check_key
from barbicel.tier.s3_settings import S3Settings

__all__ = ["S3_OPTIONS", "open_store"]

_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _truth(text: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _TRUTHS[text.lower()]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{text!r} is no number above 0")
    return int(text)


# Option → what reads it; the names are those of S3Settings.
S3_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "endpoint": str,
    "region": str,
    "access_key_id": str,
    "secret_access_key": str,
    "session_token": str,
    "allow_http": _truth,
    "path_style": _truth,
    "skip_signature": _truth,
    "connect_timeout_ms": _count,
    "stall_timeout_ms": _count,
    "timeout_ms": _count,
    "tries": _count,
    "retry_ms": _count,
    "part_bytes": _count,
    "parts_at_once": _count,
}


def open_store(url: str, *, disk: Disk, options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store at a URL. Nothing is asked of it yet. Raises StoreRefused for a wrong URL or option."""
    parsed = urlsplit(url)
    if parsed.scheme == "s3":
        from barbicel.tier.s3 import S3Objects

        return S3Objects(_s3_settings(url, dict(options or {})))
    if parsed.scheme not in ("", "file") or parsed.netloc not in ("", "localhost"):
        raise StoreRefused("no such kind of store", path=url, hint="s3://bucket/prefix or file:///path")
    if options:
        raise StoreRefused(f"a directory has no option {sorted(options)[0]!r}", path=url)
    path = unquote(parsed.path) if parsed.scheme else url
    if not path:
        raise StoreRefused("the URL names no directory", path=url)
    return DirectoryObjects(path, disk=disk)


def _s3_settings(url: str, options: dict[str, str]) -> S3Settings:
    # Not urlsplit: a key may contain what it takes for a query or a fragment.
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    if has_user_info(url):
        raise StoreRefused(FROM_THE_ENVIRONMENT)  # without the URL, which has a secret
    if not bucket:
        raise StoreRefused("the URL names no bucket", path=url)
    if prefix:
        check_key(prefix)
    # An endpoint that is given as http is meant.
    endpoint = options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or _environment_endpoint()
    is_plain = (endpoint or "").startswith("http://")
    found = {"allow_http": is_plain, **_read_options(url, options)}
    if is_plain and not found["allow_http"]:
        raise StoreRefused(f"{endpoint} is not encrypted, and allow_http forbids that", path=url)
    return S3Settings(bucket, prefix, **found)


def _environment_endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")


def _read_options(url: str, options: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name, text in options.items():
        if name not in S3_OPTIONS:
            raise StoreRefused(f"S3 has no option {name!r}", path=url, hint=f"it has {', '.join(S3_OPTIONS)}")
        try:
            found[name] = S3_OPTIONS[name](text)
        except ValueError as error:
            raise StoreRefused(f"option {name}: {error}", path=url) from None
    return found
