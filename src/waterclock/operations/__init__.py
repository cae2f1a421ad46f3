"""What people ask of a project, whichever face they ask through: terminal, browser or notebook."""
