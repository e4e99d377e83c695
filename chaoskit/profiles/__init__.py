"""The built-in profiles (YAML files beside this one) and what is known of environment variables. Data
only."""
