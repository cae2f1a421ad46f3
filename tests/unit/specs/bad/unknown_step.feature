Feature: Sales
  Scenario: a step that nobody knows
    Given the tables raw.customers is empty
    When marts.sales runs
    Then marts.sales is empty
#> E351 unknown step 'the tables raw.customers is empty'
#>   unknown_step.feature:3:5
#> why  the steps are:
#>      the table TABLE at LABEL
#>      the table TABLE at LABEL is empty
#>      the table TABLE at LABEL also gets
#>      the table TABLE at LABEL is now
#>      TABLE runs at LABEL
#>      TABLE at LABEL is
#>      TABLE at LABEL is empty
#>      TABLE at LABEL contains
#>      TABLE at LABEL fails with RULE
#>      TABLE at LABEL warns of RULE
#> fix  did you mean: the table raw.customers is empty
