"""Export of a session as a document: the conversation, the tool calls, and the verdicts with hunks and checks."""
