"""The SIF trainer: TRL's GRPO trainer with a vote in place of a reward and a mask on the update."""
