"""Our own MCP server: another agent searches the project and proposes changes, by the same gate and into the same
shadow.
"""
