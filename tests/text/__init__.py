"""Tests of storable text, strict JSON and strict YAML."""
