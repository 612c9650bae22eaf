"""Promotion: accepted bytes become files of the user, journalled and atomic."""
