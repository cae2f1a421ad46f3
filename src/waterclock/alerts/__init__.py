"""Sends alerts about problems that need a user: finds root causes, applies rules, and sends messages to targets."""
