"""Plug-in folders as collections of them are published."""

from __future__ import annotations

import json

from core.extensions.agents import load_agent_definitions, load_agents
from core.extensions.plugins import find_extension_folders, load_plugins

AGENT = "---\nname: {}\ndescription: d\n---\nYou help.\n"


def manifest(**fields):
    return json.dumps(fields)


def test_what_a_plug_in_brings_is_called_with_its_name(places):
    places.write(
        {
            ".claude/plugins/tools/.claude-plugin/plugin.json": manifest(
                name="acme", version="1.0.4", description="All\nof it", agents=["./extra.md", "./more"]
            ),
            ".claude/plugins/tools/agents/a.md": AGENT.format("a"),
            ".claude/plugins/tools/extra.md": AGENT.format("b"),
            ".claude/plugins/tools/more/c.md": AGENT.format("c"),
            ".claude/plugins/tools/README.md": "# Not an agent",
        }
    )
    (plugin,) = load_plugins(places.folders()).plugins
    assert (plugin.name, plugin.version, plugin.description, plugin.problems) == ("acme", "1.0.4", "All of it", ())
    definitions = load_agents([plugin.folder])
    assert [(agent.name, agent.source) for agent in definitions.agents] == [
        ("acme:a", "acme"),
        ("acme:b", "acme"),
        ("acme:c", "acme"),
    ]
    assert definitions.skipped == ()
    assert load_agent_definitions(places.workspace, lambda *_: True).find("acme:b") is not None


def test_hooks_and_servers_of_a_plug_in_are_returned_as_they_stand(places):
    hooks, servers = '{"hooks": {"Stop": []}}', '{"mcpServers": {"x": {"command": "x"}}}'
    places.write(
        {
            "plugins/p/.cursor-plugin/plugin.json": manifest(name="p", hooks="./my-hooks.json", mcpServers={"y": {}}),
            "plugins/p/hooks/hooks.json": hooks,
            "plugins/p/my-hooks.json": hooks,
            "plugins/p/.mcp.json": servers,
        },
        places.config,
    )
    (plugin,) = load_plugins(places.folders()).plugins
    home = "~/.config/agent-tui/plugins/p"
    assert [(source.kind, source.path, source.directory, source.scope) for source in plugin.sources] == [
        ("hooks", f"{home}/hooks/hooks.json", home, "user"),
        ("hooks", f"{home}/my-hooks.json", home, "user"),
        ("mcp", f"{home}/.cursor-plugin/plugin.json", home, "user"),
        ("mcp", f"{home}/.mcp.json", home, "user"),
    ]
    assert [json.loads(source.data) for source in plugin.sources[2:]] == [
        {"mcpServers": {"y": {}}},
        json.loads(servers),
    ]


def test_no_path_of_a_manifest_leads_out_of_the_plug_in(places):
    places.write(
        {
            ".claude/plugins/p/.claude-plugin/plugin.json": manifest(
                agents=["../../../secret", "/etc", "~/x", "", 3, "./a/../../b"], hooks="../hooks.json"
            ),
            ".claude/plugins/hooks.json": "{}",
        }
    )
    (plugin,) = load_plugins(places.folders()).plugins
    assert plugin.name == "p"
    assert plugin.folder.further["agents"] == ()
    assert plugin.sources == ()
    assert len(plugin.problems) == 7
    assert "'../hooks.json', which is not a path inside the plug-in" in plugin.problems[-1]


def test_a_folder_that_is_no_plug_in_is_told_with_the_reason(places):
    places.write(
        {
            ".claude/plugins/a/README.md": "",
            ".claude/plugins/b/.claude-plugin/plugin.json": "{",
            ".claude/plugins/c/.claude-plugin/plugin.json": "[]",
            ".claude/plugins/d/.claude-plugin/plugin.json": manifest(name="a b"),
        }
    )
    plugins = load_plugins(places.folders())
    assert plugins.plugins == ()
    assert [skipped_file.reason.partition(":")[0] for skipped_file in plugins.skipped] == [
        "it has neither .claude-plugin/plugin.json nor .cursor-plugin/plugin.json",
        ".claude-plugin/plugin.json is not JSON",
        ".claude-plugin/plugin.json is not an object",
        "'a b' is not a valid plug-in name",
    ]


def test_nothing_of_an_untrusted_project_is_read(places):
    places.write({".claude/plugins/p/.claude-plugin/plugin.json": manifest(name="p")})
    assert find_extension_folders(places.workspace, None).plugins.plugins == ()
    assert load_plugins(places.folders(lambda path, _: not path.endswith("plugin.json"))).plugins == ()
