r"""What users bring: simulators, priors, posteriors, code and files, made into what the runner knows."""
