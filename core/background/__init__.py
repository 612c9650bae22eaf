"""Background agents: what is known of each, where that is kept, and the queue that workers take them from."""
