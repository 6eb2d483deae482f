"""Prompts and reference answers from files, the hub and generators; answers reach graders, never the trainer."""
