"""Keratin: a crash-safe segmented log. It knows bytes, offsets and time, and nothing of who wrote them."""

from barbicel.keratin.log import Log
from barbicel.keratin.records import Ack, Appended, NewRecord
from barbicel.keratin.settings import LogSettings
from barbicel.keratin.writer import Writer, WriterSettings

__all__ = ["Ack", "Appended", "Log", "LogSettings", "NewRecord", "Writer", "WriterSettings"]
