"""Kestrel's clients, as people have them, against the real gateway: memcache clients and raw sockets."""
