"""Conversations and their transcripts."""
