"""Settings: the tables, the sources, and what is said about mistakes."""
