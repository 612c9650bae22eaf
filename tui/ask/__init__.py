"""The bars that ask: approvals, questions and trust."""
