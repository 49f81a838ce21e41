"""The environment of Alembic: runs migrations on the connection from `perdure.store.migrate`."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    on_version_apply=context.config.attributes["on_version_apply"],
    transactional_ddl=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
