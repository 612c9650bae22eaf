"""The chat API: its requests, the answer that is followed, and the events of its stream."""
