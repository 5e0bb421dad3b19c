"""Consumer groups: who is a member, who leads, and what each is told when."""
