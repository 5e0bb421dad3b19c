"""What runs a real Apache Kafka and real Java clients, from Maven's jars and without a container."""
