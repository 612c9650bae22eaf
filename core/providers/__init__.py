"""Model providers: one module wraps one SDK; all of them speak the types of `base`."""
