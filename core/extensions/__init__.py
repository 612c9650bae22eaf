"""Extensions of the agent that are files: skills, commands, subagent definitions, and plug-in folders."""
