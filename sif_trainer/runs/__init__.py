"""What every long command shares: recipes, run folders, records, progress, and the one way to fail. No torch here."""
