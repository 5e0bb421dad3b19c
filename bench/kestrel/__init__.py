"""The Kestrel front end beside a bare Twisted protocol, and Kestrel's own load scenarios as programs."""
