"""Spark as this process starts it: Java, jars, sessions, users' functions, and its errors as ours."""

from __future__ import annotations
