Feature: Late departures

  What `marts.delays` counts for each airline and day, from the flights of that day.

  Background:
    Given the table raw.airlines
      | carrier | name                   |
      | AA      | American Airlines Inc. |
      | UA      | United Air Lines Inc.  |

  Rule: A flight is late when it leaves more than 15 minutes after its time

    Scenario Outline: <delay> minutes
      Given the table clean.flights
        | carrier | dep_time | dep_delay |
        | AA      | 900      | <delay>   |
      When marts.delays runs
      Then marts.delays is
        | carrier | flights | late   |
        | AA      | 1       | <late> |

      Examples:
        | delay | late |
        | -5    | 0    |
        | 15    | 0    |
        | 16    | 1    |

  Rule: A flight that did not leave counts for nothing

    Scenario: one of two flights was cancelled
      Given the table clean.flights at 2013-01-01
        | carrier | dep_time | dep_delay |
        | AA      | 900      | 20        |
        | AA      | NULL     | NULL      |
        | UA      | NULL     | NULL      |
      When marts.delays runs at 2013-01-01
      Then marts.delays is
        | carrier | airline                | flights | mean_delay | late |
        | AA      | American Airlines Inc. | 1       | 20         | 1    |

  Rule: A day is counted again when flights of that day come late

    Scenario: a flight of the first is known on the third
      Given the table clean.flights at 2013-01-01
        | carrier | dep_time | dep_delay |
        | AA      | 900      | 20        |
      And the table clean.flights at 2013-01-02
        | carrier | dep_time | dep_delay |
        | UA      | 1000     | 0         |
      When marts.delays runs at 2013-01-01..2013-01-02
      And the table clean.flights at 2013-01-01 also gets
        | carrier | dep_time | dep_delay |
        | AA      | 2330     | 40        |
      And marts.delays runs at 2013-01-02
      Then marts.delays at 2013-01-01 is
        | carrier | flights | mean_delay | late |
        | AA      | 2       | 30         | 2    |
      And marts.delays at 2013-01-02 is
        | carrier | flights |
        | UA      | 1       |
