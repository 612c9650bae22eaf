"""The connection to a model API: its address, its key, and its SDK."""
