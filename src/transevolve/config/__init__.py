"""Recipes as typed settings, recipe files, and the command line derived from them."""
