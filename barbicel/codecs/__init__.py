"""Bytes to values and back, nothing else: no clock, no logging, no files."""

__all__: list[str] = []
