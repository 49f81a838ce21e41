"""The tools: they run programs and read and write files; and the policies for calls of models.

May import: kernel, settings, failpoints, errors. A tool implements `perdure.kernel.tool.Tool`: failure is an outcome,
not an exception.
"""
