"""Who is let in and what they may do: principals, passwords, tokens, ACLs, quotas. For every protocol."""

__all__: list[str] = []
