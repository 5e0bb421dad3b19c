"""What a machine lacks for the pipeline, as an error that says what to do."""

from __future__ import annotations

from barbicel.errors import BarbicelError

__all__ = ["PipelineUnavailable"]


class PipelineUnavailable(BarbicelError):
    """Java, a jar or a package is missing or of the wrong version."""
