"""The broker behind the protocols."""
