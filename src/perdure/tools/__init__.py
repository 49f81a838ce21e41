"""What acts: programs that are run, files that are read and written, and what may be done without asking.

May import: kernel, settings, failpoints, errors. A tool implements `perdure.kernel.tool.Tool`: failure is an outcome,
not an exception.
"""
