"""Rootfs."""
