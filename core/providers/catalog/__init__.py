"""Knowledge about providers and models: addresses, capabilities and prices."""
