"""How a scheduler's answers are shown, to people and to scripts."""
