"""The memcache protocol's bytes, against what Kestrel does with them."""
