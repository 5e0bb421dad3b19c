"""Kestrel's queues from journals into a data directory or a running gateway, and back out again."""

__all__: list[str] = []
