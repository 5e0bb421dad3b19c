"""Tiered topics: offload and cold reads beside bare puts and gets of the same objects."""
