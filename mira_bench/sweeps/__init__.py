r"""Many runs: studies, jobs, Hydra's sweeps, watching and collecting them."""
