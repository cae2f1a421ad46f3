"""Sealed slices: written once, each with a manifest; checked, digested and read."""
