"""Kafka's protocol: a connection, a dispatch table, and one file an API key.

The listing of this directory is what the gateway speaks; `table.py` puts it together.
"""

__all__: list[str] = []
