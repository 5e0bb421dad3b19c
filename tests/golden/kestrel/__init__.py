"""Kestrel's journals, written from its specification alone."""
