"""The knowledge of providers and models: what they can do, what they cost."""
