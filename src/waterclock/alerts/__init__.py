"""Alerts people to problems that need action: root causes, rules, messages, and their targets."""
