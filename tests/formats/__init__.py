"""The judge of the formats of chat models: whole texts in, content, reasoning and calls out."""
