"""Tests of the Kafka front end."""
