"""Kestrel's journals, against queues that were worked out by hand and against a plain model."""
