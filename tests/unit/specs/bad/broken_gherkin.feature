Feature: Sales
  Scenario: a table that is broken
    Given the table raw.customers
      | customer | country |
      | 1 |
    When marts.sales runs
    Whn nothing
#> E350 the lines of this table have different numbers of cells
#>   broken_gherkin.feature:5:7
#>   5 |       | 1 |
#>     |       ^
#> why  inconsistent cell count within the table
#> fix  write NULL where there is no value
#> E350 'Whn nothing' is not expected here
#>   broken_gherkin.feature:7:5
#>   7 |     Whn nothing
#>     |     ^
#> why  expected: EOF, TableRow, DocStringSeparator, StepLine, TagLine, ExamplesLine, ScenarioLine, RuleLine, Comment, Empty
#> fix  did you mean When?
