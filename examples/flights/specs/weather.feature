Feature: Flights with their weather

  `clean.flights` has one row per flight, with the weather at its origin in the hour of its scheduled departure.

  Background:
    Given the table raw.flights at 2013-01-01
      | carrier | flight | origin | time_hour        | minute | dep_time |
      | UA      | 1545   | EWR    | 2013-01-01 10:00 | 15     | 517      |
      | AA      | 1141   | JFK    | 2013-01-01 10:00 | 40     | 542      |

  Rule: The weather is that of the airport and the hour

    Scenario: another airport and another hour do not count
      Given the table raw.weather at 2013-01-01
        | origin | time_hour        | wind_speed |
        | EWR    | 2013-01-01 10:00 | 12.5       |
        | EWR    | 2013-01-01 11:00 | 99         |
        | JFK    | 2013-01-01 10:00 | 15         |
        | LGA    | 2013-01-01 10:00 | 99         |
      When clean.flights runs at 2013-01-01
      Then clean.flights is
        | carrier | flight | scheduled_at     | wind_speed |
        | UA      | 1545   | 2013-01-01 10:15 | 12.5       |
        | AA      | 1141   | 2013-01-01 10:40 | 15         |

  Rule: A flight without weather is kept, and a warning says so

    Scenario: the station of one airport is silent
      Given the table raw.weather at 2013-01-01
        | origin | time_hour        | wind_speed |
        | EWR    | 2013-01-01 10:00 | 12.5       |
      When clean.flights runs at 2013-01-01
      Then clean.flights is
        | carrier | flight | wind_speed |
        | UA      | 1545   | 12.5       |
        | AA      | 1141   | NULL       |
      And clean.flights warns of weather_is_known

  Rule: A day on which more than two flights in a hundred were cancelled is kept, and a warning says so

    Scenario: one of three was cancelled
      Given the table raw.weather at 2013-01-01 is empty
      And the table raw.flights at 2013-01-01 also gets
        | carrier | flight | origin | time_hour        | minute | dep_time |
        | AA      | 7      | JFK    | 2013-01-01 12:00 | 0      | NULL     |
      When clean.flights runs at 2013-01-01
      Then clean.flights warns of few_cancelled
