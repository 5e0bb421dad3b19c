"""Killing the gateway again and again under load, and checking what its clients were told and have seen."""
