"""The recipe as a typed tree, its files, and the command line made from it."""
