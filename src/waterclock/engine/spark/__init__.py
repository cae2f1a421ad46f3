"""Starts and uses Spark: Java, jars, sessions, users' functions, and conversion of its errors."""
