"""Kestrel's side of the gateway: its two protocols over sockets, and the queues behind them."""

__all__: list[str] = []
