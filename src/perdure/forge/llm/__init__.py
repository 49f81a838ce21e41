"""The interview led by a model: it words the questions of the built-in interview and reads the answers.

May import: what `perdure.forge` may; of `minds`, the port of models.
"""
