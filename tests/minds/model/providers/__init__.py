"""Tests of the providers of models, against the scripted model server."""
