"""Hosted agents: programs that answer instead of a model, in the box over the shadow, connected by ACP."""
