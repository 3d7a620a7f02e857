"""detok: token bytes to text, exactly and as early as possible. The public names and nothing else."""

__version__ = "0.1.0"
