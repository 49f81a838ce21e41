"""The commands of Forge: `perdure new`, and the nouns draft, bot and skill."""
