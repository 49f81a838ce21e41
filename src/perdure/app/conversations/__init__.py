"""Conversations with bots: start one, send messages, stop an answer, fork before a message, read the transcript.

A conversation is a goal of a model that waits for the next message. May import what `app` may.
"""
