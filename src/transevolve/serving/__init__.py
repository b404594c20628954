"""Serves a model over HTTP, with JSON requests and dynamic batching."""
