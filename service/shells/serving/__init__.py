"""What a serving process owes its callers besides answers: time limits, and an end that loses none of them."""
