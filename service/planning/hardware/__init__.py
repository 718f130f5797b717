"""The hardware side of an answer, the same for every engine: power, links, and warnings about both."""
