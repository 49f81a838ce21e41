"""`perdure memory`: add, find, keep in order. No command here opens the database, except `ingest goals`."""
