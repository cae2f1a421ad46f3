Feature: Sales
  Scenario: rules that are not there
    Given the table raw.orders is empty
    And the table raw.customers is empty
    When marts.sales runs
    Then marts.sales fails with somebody_bougt
    And marts.sales warns of somebody_bought
#> E363 marts.sales never fails with somebody_bougt
#>   unknown_rule.feature:6:5
#> why  it may be somebody_bought, KEY, country
#> fix  did you mean somebody_bought?
#> E363 marts.sales never warns of somebody_bought
#>   unknown_rule.feature:7:5
#> why  it may be usual
#> fix  name one of its rules, or an error's code such as E740
