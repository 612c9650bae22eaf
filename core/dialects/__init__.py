"""Dialects of models: from the text that a model writes to the parts that we show and act on."""
