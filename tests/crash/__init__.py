"""The crash campaign: a seeded workload, stopped everywhere, reopened and held to its promises."""
