"""What third parties test their parts of Waterclock with: the same suites that test its own."""
