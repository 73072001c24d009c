"""nvshare-scheduler: who may use which GPU when. ``core`` decides; the modules of this folder wire it to the rest."""
