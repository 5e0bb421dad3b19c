"""Which characters the name of a Kestrel queue may have, for the settings and for the protocols alike.

A name is the text of its bytes as Latin-1, so that every byte a client can send has a character. A file of
settings is UTF-8, and so are the names that today's clients send: `wire_name` leads from there to here.
"""

from __future__ import annotations

import re

__all__ = ["QUEUE_NAME", "wire_name"]

# Kestrel refuses '.', '/' and '~'. Its protocols end a word at a space; control characters, which a memcache
# key cannot have, would spoil listings and logs.
QUEUE_NAME = re.compile(r"[^\x00-\x20./~\x7f\u0100-\U0010ffff]+")


def wire_name(text: str) -> str:
    """The name as a client's bytes spell it: 'é' is the two characters of its UTF-8."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")
