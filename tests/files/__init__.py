"""Tests of durable files."""
