"""The providers that pydantic-ai knows beside those of Perdure's own table."""

from pydantic_ai.providers import infer_provider_class


def is_known(provider: str) -> bool:
    """Return whether a provider exists, installed or not; no request is sent."""
    try:
        infer_provider_class(provider)
    except ImportError:
        return True  # its package is not installed
    except ValueError:
        return False
    return True
