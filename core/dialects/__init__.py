"""Dialects of models: from the text that a model writes to the parts that are shown and acted on."""
