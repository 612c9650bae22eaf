"""Answers of models: received while they stream, turned into documents, their calls collected."""
