"""Adapters that turn the output of other tools into records.

An adapter reads one source and returns `SourceRecords`: the records, and the reasons why entries are unusable. It
tolerates missing data and raises no error that a caller must handle. It may import what `perdure.memory` may.
"""
