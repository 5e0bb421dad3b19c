"""The other side of a gateway: how commands and imports reach one that runs, by TLS and with a login too."""

__all__: list[str] = []
