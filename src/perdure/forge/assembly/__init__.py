"""From a config to the files of a bot, and what becomes of them later."""
