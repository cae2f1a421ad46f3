Feature: Sales
  Scenario: a table that is not there, a view, and a destination
    Given the table raw.custmers is empty
    And the table clean.paid is empty
    When marts.slaes runs
    Then out.sales is empty
#> E511 there is no table raw.custmers
#>   unknown_table.feature:3:5
#> fix  did you mean raw.customers or dim.customer or raw.orders?
#> E511 clean.paid is a view, not a table
#>   unknown_table.feature:4:5
#> why  a view has no rows of its own and does not run
#> fix  name the tables that it reads, or a table that reads it
#> E511 there is no table marts.slaes
#>   unknown_table.feature:5:5
#> fix  did you mean marts.sales or marts.pages or marts.weeks?
#> E706 out.sales is a destination, not a table
#>   unknown_table.feature:6:5
#> why  a specification publishes nothing
#> fix  name marts.sales, which is published there
