"""The chat API: prompts in, documents out, in the names of the integration concept."""
