"""Keratin against bare loops over the same bytes."""
