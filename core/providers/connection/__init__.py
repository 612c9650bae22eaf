"""The address of a model API, its key, and how it is spoken to through an SDK."""
