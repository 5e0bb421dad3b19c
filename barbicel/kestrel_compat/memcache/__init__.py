"""Kestrel's memcache protocol as bytes: requests, the reader that finds them, replies."""

__all__: list[str] = []
