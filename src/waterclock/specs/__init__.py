"""Specification by example: business rules in Gherkin, run on the engine, and published as a readable page.

`finding` finds the specifications of a project, and `feature_files` reads them with Cucumber's parser. `document`,
`steps`, `script` and `typed_rows` interpret a scenario, without Spark. `derived_flow`, `scenario_run` and `spec_runner`
run it. `outcome` and `page` report the results.
"""
