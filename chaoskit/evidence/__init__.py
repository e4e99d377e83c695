"""What can be seen of a running rank from outside. One file per source; none of them ends anything."""
