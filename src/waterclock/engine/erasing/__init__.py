"""Erases persons from a project (docs/decisions/erasing-a-person.md)."""
