"""Barbicel from Spark: a session that has everything set, and the jobs.

This is the only part that knows pyspark. It never knows the gateway: it talks to one over Kafka's protocol.
"""

from barbicel.pipeline.session import spark_session
from barbicel.pipeline.unavailable import PipelineUnavailable

__all__ = ["PipelineUnavailable", "spark_session"]
