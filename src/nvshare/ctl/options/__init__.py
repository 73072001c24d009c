"""What several commands take: options, the texts that they mean, and what a shell completes."""
