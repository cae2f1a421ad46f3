"""Waterclock's commands as functions for notebooks and programs. The command line's modules document their meaning."""
