"""Benchmarks beside the physical floor, as ratios of one run. Never a timed test."""
