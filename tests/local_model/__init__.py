"""Tests that ask a real model on this machine: `make test-models`. They look at the form of answers only."""
