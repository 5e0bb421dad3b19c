"""Spark on Barbicel: the direct source beside the connector, the decoder alone, the import of journals."""
