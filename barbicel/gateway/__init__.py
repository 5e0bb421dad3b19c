"""The gateway: what the protocols ask for, decided and answered over the logs and the groups."""

__all__: list[str] = []
