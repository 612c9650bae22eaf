"""Permissions: rules, saved answers, trust in the project, the policy that decides, and the audit log."""
