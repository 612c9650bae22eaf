"""Controllers of what the user chooses for a session: its mode, its model, and who provides that."""
