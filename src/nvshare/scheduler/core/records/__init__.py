"""What is known of clients, containers and gangs: records, without rules."""
