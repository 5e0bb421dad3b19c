"""The text protocol's bytes, against what Kestrel does with them."""
