"""The context of requests: the prefix, reminders, rules, skills, attachments, and their size in tokens."""
