"""The check of the object store, if there is one: that it answers, and is fit for a tier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from barbicel.cli.checks.finding import Finding, Level, Subject
from barbicel.errors import StoreError
from barbicel.gateway.broker.tiering.leftover import has_manifests
from barbicel.gateway.broker.tiering.tiering import open_configured_store
from barbicel.tier.probe import probe

__all__ = ["check_store"]

# A name of its own: no cluster's.
NAMESPACE = "barbicel-doctor"


def check_store(subject: Subject) -> Iterator[Finding]:
    """Writes an object or two of its own there, and deletes them."""
    config = replace(subject.config, data_directory=subject.layout.root)
    is_on = config.remote_log_storage_system_enable
    if not is_on and not has_manifests(subject.disk, subject.layout):
        yield Finding(Level.OK, "tiering is switched off")
        return
    store = open_configured_store(config, subject.disk, subject.layout)
    try:
        if not is_on:
            yield Finding(Level.OK, f"tiering is switched off; what was tiered is read from {store.url}")
            return
        probe(store, NAMESPACE)
    except StoreError as error:
        yield Finding(
            Level.FAULT,
            f"{store.url}: {error}",
            "see tier.store, tier.s3.endpoint, the rights of the bucket, and AWS_ACCESS_KEY_ID",
        )
    else:
        yield Finding(Level.OK, f"{store.url} answers, and is fit")
    finally:
        store.close()
