"""Hosted agents: programs that answer instead of a model, each in the box over the shadow, connected by ACP."""
