r"""Times as people write them."""

__all__ = ["clock", "rough"]


def clock(seconds: float) -> str:
    r"""Returns a time as a clock shows it.

    Example:
        >>> clock(65.2), clock(7390)
        ('1:05', '2:03:10')
    """

    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rough(seconds: float) -> str:
    r"""Returns a time in the unit that suits it: seconds, minutes or hours.

    Example:
        >>> rough(12.34), rough(90), rough(5400)
        ('12.3 s', '1.5 min', '1.5 h')
    """

    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
