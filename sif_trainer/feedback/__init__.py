"""What a prompt's group of responses decides: rewards, advantages and who takes part in the update."""
