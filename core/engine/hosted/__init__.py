"""Agents of others that answer in the place of a model: each in the box over the shadow, spoken to by ACP."""
