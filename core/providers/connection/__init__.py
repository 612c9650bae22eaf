"""Where a model API is, with which key, and how it is spoken to through an SDK."""
