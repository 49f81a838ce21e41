"""Python values as JSON and back, by annotation."""
