"""What `detok serve` serves and runs with: files, for detok_py of the same version."""
