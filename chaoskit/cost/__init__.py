"""What hardening costs: arms of one comparison timed in turns in one run, so that the machine's noise
cancels out."""
