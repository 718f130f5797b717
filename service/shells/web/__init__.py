"""The page for people who would rather look than read: a form for the question, the answer drawn beside it."""
