"""The study `durability`."""
