"""The error codes with their explanations: one module for each subject, and `catalog` with all of them."""
