"""Branches: environments that borrow the tables of another one, and make only those whose code was changed."""
