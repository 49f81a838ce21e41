"""Changes of goals: posts to their inboxes, retries, forks and deletions."""
