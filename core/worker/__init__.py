"""Workers of background agents: they take agents from a store and run each in an engine."""
