"""A model of a GGUF file in this process: llama.cpp behind a socket in a private folder, with a key of its own."""

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import httpx2


class LocalModelFailed(Exception):
    """The file cannot be loaded."""


class LocalModel:
    """One loaded file. It listens on no port: its socket is in a folder that only this user can open."""

    def __init__(self, server: Any, folder: Path, key: str) -> None:
        self._server = server
        self._folder = folder
        self.key = key
        self.url = "http://localhost/v1"
        """The base URL of its protocol; the host is not looked up."""
        self.http = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=os.fspath(folder / _SOCKET)), timeout=httpx2.Timeout(None)
        )

    @classmethod
    async def load(cls, path: str, context_window: int) -> "LocalModel":
        """Load a file, on a thread: that takes seconds.

        Raises: LocalModelFailed; ImportError without the extra.
        """
        if not await asyncio.to_thread(os.path.isfile, path):
            raise LocalModelFailed(f"there is no file {path}")
        return await asyncio.to_thread(cls._load, path, context_window)

    @classmethod
    def _load(cls, path: str, context_window: int) -> "LocalModel":
        import xllamacpp

        folder, key = Path(tempfile.mkdtemp(prefix="perdure-model-")), secrets.token_hex(32)
        try:
            wanted = xllamacpp.CommonParams()
            wanted.model.path = path
            socket = os.fspath(folder / _SOCKET)
            for name, value in {**_SETTINGS, "n_ctx": context_window, "hostnames": [socket], "api_keys": [key]}.items():
                setattr(wanted, name, value)
            return cls(xllamacpp.Server(wanted), folder, key)
        except RuntimeError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise LocalModelFailed(f"{path} cannot be loaded; it must be a model in the GGUF format") from error

    async def close(self) -> None:
        """Unload the model."""
        with contextlib.suppress(httpx2.HTTPError):
            await self.http.aclose()
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        self._server = None  # its destructor waits for its threads
        shutil.rmtree(self._folder, ignore_errors=True)


_SOCKET = "model.sock"
_SETTINGS = {"ui": False, "endpoint_slots": False, "warmup": False, "verbosity": -1}
"""No page, no list of requests, no first request of its own, and nothing on standard error."""
