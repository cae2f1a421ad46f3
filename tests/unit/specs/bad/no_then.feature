Feature: Sales
  Scenario: nothing is expected
    Given the table raw.orders is empty
    And the table raw.customers is empty
    When marts.sales runs
  Scenario: nothing runs
    Given the table raw.orders is empty
    Then raw.orders is empty
#> E356 nothing is expected in this scenario
#>   no_then.feature:2:3
#> fix  write: Then TABLE is
#> E356 nothing runs in this scenario
#>   no_then.feature:6:3
#> fix  write: When TABLE runs at LABEL
