"""What is said in a goal that a model decides: messages, prompts, turns of the model and their parts, summaries."""
