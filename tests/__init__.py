"""The tests mirror `src/perdure`; `contracts/` holds one suite per port, run on every backend."""
