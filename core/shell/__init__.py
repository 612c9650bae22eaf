"""The shell: commands of the agent and the user, in a box over the shadow: jobs, output, network grants."""
