"""Stored topics as Spark DataFrames, read from their files: no server, no lock, nothing is changed."""

from barbicel.pipeline.source.source import BarbicelDataSource, register

__all__ = ["BarbicelDataSource", "register"]
