"""Starts, watches and ends runs. Nothing here runs user code."""
