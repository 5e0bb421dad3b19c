"""What a client may do, as Kafka numbers it (AclOperation). Without access control that is everything."""

from __future__ import annotations

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "TOPIC_OPERATIONS"]

# Create, alter, describe, cluster action, describe configs, alter configs, idempotent write.
CLUSTER_OPERATIONS = frozenset({5, 7, 8, 9, 10, 11, 12})
# Read, write, create, delete, alter, describe, describe configs, alter configs.
TOPIC_OPERATIONS = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
# Read, delete, describe, describe configs, alter configs.
GROUP_OPERATIONS = frozenset({3, 6, 8, 10, 11})
