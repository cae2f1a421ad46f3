"""Specification by example: business rules in Gherkin, run on the engine, and published as a readable page.

document -> steps -> script -> typed_rows interpret a scenario, without Spark; derived_flow -> scenario_run -> running
run it; outcome and page report the results.
"""
