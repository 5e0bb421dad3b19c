"""Unmodified clients against the gateway, over real sockets; docs/compatibility.md comes from these tests."""
