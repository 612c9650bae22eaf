"""Rules for the agent: texts of the user and of the project that say how work is done here."""
