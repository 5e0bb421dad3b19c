"""Moving from Kestrel: its journals beside a bare read and a bare write of the same bytes."""
