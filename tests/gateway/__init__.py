"""The gateway: protocols, topics, groups and producers."""
