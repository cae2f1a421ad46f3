"""Specification by example: business rules in Gherkin, run on the engine, and told as a page that people read.

document -> steps -> script -> typed say what a scenario means, without Spark; derived -> bench -> running run it;
outcome and page tell what came of it.
"""
