"""Sessions: opened, recorded, restored and closed, with their models, permissions, servers and hooks."""
