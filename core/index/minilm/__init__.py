"""all-MiniLM-L6-v2 on this machine: its words, the model, and the process that it runs in."""
