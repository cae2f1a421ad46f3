"""The error codes with their explanations, one module for each subject; `catalog` collects them all."""
