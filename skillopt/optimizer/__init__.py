"""What turns scored rollouts into a candidate skill: one module a stage, one Markdown file a prompt."""
