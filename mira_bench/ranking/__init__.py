r"""From scores to an order: tiers and verdicts, trainings, leaderboards, and how many fiducials it takes."""
