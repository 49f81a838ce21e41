"""What Forge asks of the outside. So far only the value types that a store has to know."""

from perdure.forge.vocabulary import BuilderMode, BuilderPhase

__all__ = ["BuilderMode", "BuilderPhase"]
