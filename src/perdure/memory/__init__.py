"""The memory: an append-only log of records, its derived index, and queries.

`memory.jsonl` is the truth; everything else is derived from it and may be deleted. This folder imports only
`perdure.settings`, `perdure.failpoints` and `perdure.errors`, and `tools` the kernel; it needs no database, no network
and no model. The only SQL here is in `index.py`, for the file of the index, and in `stems.py`, for its tokenizer.
"""
