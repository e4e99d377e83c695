"""What runs in the ranks that are timed: no recorder, no faults, nothing of chaoskit but the guards that are
compared. Standard library and torch only."""
