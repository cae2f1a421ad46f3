Feature: Hours flown

  `marts.hours_flown` adds each day's flights to what it held the day before.

  Rule: A plane's flights and minutes add up from day to day

    Scenario: a plane that is known and one that is new
      Given the table marts.hours_flown at 2013-01-01
        | tailnum | flights | minutes |
        | N14228  | 10      | 1500    |
        | N24211  | 3       | 600     |
      And the table clean.flights at 2013-01-02
        | tailnum | dep_time | air_time |
        | N14228  | 517      | 227      |
        | N619AA  | 542      | 160      |
      When marts.hours_flown runs at 2013-01-02
      Then marts.hours_flown is
        | tailnum | flights | minutes |
        | N14228  | 11      | 1727    |
        | N24211  | 3       | 600     |
        | N619AA  | 1       | 160     |

  Rule: A flight that left and whose time in the air is not known counts with no minutes

    Scenario: it was diverted
      Given the table clean.flights
        | tailnum | dep_time | air_time |
        | N14228  | 517      |          |
      When marts.hours_flown runs
      Then marts.hours_flown is
        | tailnum | flights | minutes |
        | N14228  | 1       | 0       |
