"""The tier: sealed segments as `.kfs` objects in an object store, tracked by an AOF2 manifest log.

Everything here waits (for the object store, for the disk) and is called from threads. A module that needs
a library of its own is imported by whoever opens a tier, so that a server without one does not load it.
"""

__all__: list[str] = []
