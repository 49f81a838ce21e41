"""Tests of the mind that is a language model."""
