"""The shipped studies, a folder each: study.yaml, and only where needed its tables and figures."""
