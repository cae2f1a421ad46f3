Feature: Sales
  Scenario: what runs is given later
    When marts.sales runs at 2020-01-01
    Given the table raw.orders at 2020-01-01 is empty
    And the table raw.customers is empty
    Then marts.sales is empty
  Scenario: nothing has run yet
    Given the table raw.orders is empty
    Then marts.sales is empty
    When marts.pages runs
#> E357 raw.customers is not given before marts.sales runs
#>   when_before_given.feature:3:5
#> why  marts.sales reads raw.customers, directly or through others, and a specification reads no source
#> fix  write before it: Given the table raw.customers is empty, or its rows
#> E357 raw.orders is not given before marts.sales runs
#>   when_before_given.feature:3:5
#> why  marts.sales reads raw.orders, directly or through others, and a specification reads no source
#> fix  write before it: Given the table raw.orders is empty, or its rows
#> E356 marts.sales has not run
#>   when_before_given.feature:9:5
#> fix  write: When marts.sales runs
#> E357 raw.clicks is not given before marts.pages runs
#>   when_before_given.feature:10:5
#> why  marts.pages reads raw.clicks, directly or through others, and a specification reads no source
#> fix  write before it: Given the table raw.clicks is empty, or its rows
