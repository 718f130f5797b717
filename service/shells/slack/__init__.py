"""Questions asked in Slack: a command, mentions and a form, answered in Block Kit."""
