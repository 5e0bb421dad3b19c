"""Stroma against bare loops over the same bytes, and against itself with less to hold."""
