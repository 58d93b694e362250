"""The shipped studies, a folder each: study.yaml, and where needed tables, figures, a reader."""
