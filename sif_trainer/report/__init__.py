"""Tables, plots and pages drawn from run folders; nothing here computes a result."""
