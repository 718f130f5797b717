"""The JSON contract: what a plan request, a plan and a problem look like to other programs."""
