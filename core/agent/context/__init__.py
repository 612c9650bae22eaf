"""The context of requests: prefix, the user's message, mentions, reminders, and the room that is left for them."""
