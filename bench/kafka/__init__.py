"""The gateway beside a real Apache Kafka, driven by the same clients in the same rounds."""
