"""The conversation with a model: messages, prompts, turns and their parts, summaries."""
