"""Answers of models: received while they stream, made into documents, their calls and edits taken out."""
