"""A flood of sets and reliable reads while the gateway is killed again and again, and what must hold then."""
