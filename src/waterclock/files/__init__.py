"""Reads and writes files on this machine and objects in object stores."""
