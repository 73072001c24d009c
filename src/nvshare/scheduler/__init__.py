"""nvshare-scheduler: who may use which GPU when. ``core`` and what it imports are pure; the rest is its shell."""
