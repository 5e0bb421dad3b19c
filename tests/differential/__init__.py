"""The same conversations with a real Apache Kafka and with the gateway, compared field by field."""
