"""Adapters that turn the output of other tools into records.

An adapter reads one source and gives `Found`: records, and what it could not use. It tolerates whatever is missing and
raises nothing that its caller would have to handle. It imports what `perdure.memory` may import.
"""
