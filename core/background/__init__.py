"""Background agents: their records, their store, and the queue of work for workers."""
