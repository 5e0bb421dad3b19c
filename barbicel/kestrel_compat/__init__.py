"""Kestrel without I/O: its protocols, its names, its settings, and what its queues decide."""

__all__: list[str] = []
