"""What children are forked from: what most of them import is imported here, and what is slow to work out is known."""

import gc
import importlib

from perdure.interfaces.api.app import make_routes
from perdure.interfaces.cli.commands import build

_IMPORTED = (
    "anyio._backends._asyncio",
    "concurrent.futures.thread",
    "multiprocessing.popen_forkserver",
    "perdure.app.builder.forge",
    "perdure.app.goals.goals",
    "perdure.app.home.backup",
    "perdure.app.models.model_goals",
    "perdure.interfaces.api.server",
    "perdure.interfaces.cli.errors",
    "perdure.interfaces.cli.forge.interview",
    "perdure.interfaces.cli.forge.numbered",
    "perdure.interfaces.cli.forge.prompts",
    "perdure.interfaces.cli.goals.run_ui.in_place",
    "perdure.interfaces.cli.goals.run_ui.live",
    "perdure.memory.memory",
    "perdure.minds.factory",
    "perdure.minds.model.providers.requests.connections",
    "perdure.minds.model.providers.requests.streams",
    "perdure.minds.plan.mind",
    "perdure.minds.plan.plan_file",
    "perdure.minds.plan.plan_view",
    "perdure.store.backup.restore",
    "perdure.store.goals.postgres",
    "perdure.store.goals.sqlite",
    "perdure.store.migrate",
    "perdure.store.postgres.database",
    "perdure.store.schema.verify",
    "perdure.store.sqlite.file_database",
    "perdure.store.transaction",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "psycopg",
    "rich.live",
    "tests.children",
    "tests.crash.flows",
    "tests.crash.forge",
    "tests.crash.goals",
    "tests.crash.program",
    "tests.crash.test_assembly",
    "tests.crash.test_backup",
    "tests.crash.test_database",
    "tests.forge.bots",
    "tests.interfaces.cli.on_terminal",
    "tests.memory.jobs",
    "tests.rows",
    "tests.waiting",
    "uuid_utils",
    "uvicorn.lifespan.off",
)

for name in _IMPORTED:
    importlib.import_module(name)
for word in ("run", "goal", "serve", "db", "draft", "new"):
    build(word)
make_routes().openapi()
gc.collect()
gc.freeze()  # a full collection in a child would copy every page of what is loaded here
