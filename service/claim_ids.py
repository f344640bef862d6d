"""The name of a claim outside, as the store and its outbox write it too."""

from ..store.claim_ids import format_claim, parse_claim

__all__ = ["format_claim", "parse_claim"]
