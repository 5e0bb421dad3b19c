"""Bytes against values: goldens from the specifications, damage, and round trips."""
