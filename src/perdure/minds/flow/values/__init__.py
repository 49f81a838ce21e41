"""Converts Python values to JSON and back, by annotation."""
