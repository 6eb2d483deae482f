"""What finished runs came to and what the theory says, computed from records and closed forms; no model is read."""
