"""Kestrel's journals: which files are a queue, and what is in the queue once they are replayed."""

__all__: list[str] = []
