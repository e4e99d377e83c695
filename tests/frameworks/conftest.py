pytest_plugins = ["real_runs"]
