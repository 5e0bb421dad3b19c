"""Kestrel without I/O: names, settings, protocols and queues."""
