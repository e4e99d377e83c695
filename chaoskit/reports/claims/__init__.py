"""What ``chaoskit claims`` found, as text, JSON and Markdown, and as a table over versions of torch."""
