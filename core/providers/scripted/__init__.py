"""The provider that plays a script: demo and tests."""
