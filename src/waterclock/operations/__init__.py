"""Queries and actions on a project, shared by all interfaces: terminal, browser and notebook."""
