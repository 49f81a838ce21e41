"""Tests of the scripted model server, spoken to by the vendors' own clients."""
