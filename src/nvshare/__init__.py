"""nvshare: several programs share a GPU, in turns or together, without changing them."""
