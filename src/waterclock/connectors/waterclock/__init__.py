"""The connection type `waterclock`: tables of another Waterclock project, collected at its ticks."""
