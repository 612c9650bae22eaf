"""Attachments of a prompt: pictures and PDFs from files, pastes and the clipboard."""
