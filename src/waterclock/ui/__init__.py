"""The project in a browser: pages of what `operations` finds out, each with the same content as JSON beside it.

The pages ask planner and ledger, start no Spark, and change nothing but by a decision that was shown before.
"""
