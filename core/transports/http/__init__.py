"""The door by HTTP: the chat API, the sessions behind it, and its safety. litestar and uvicorn stand here alone."""
