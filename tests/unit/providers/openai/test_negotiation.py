"""What a server refuses is sent without, once and for all: a grammar, an object of any fields."""

from __future__ import annotations

from core.errors import ProviderError
from core.providers.base import ModelRequest, ToolSpec
from core.providers.catalog.capabilities import Capabilities
from core.providers.openai.chat import ChatWire
from core.providers.openai.negotiation import Negotiation
from core.providers.openai.responses import ResponsesWire
from core.tools.builtin.editing.apply_patch import GRAMMAR
from core.tools.toolset import Toolset

TOOLS = Toolset()
SPECS = TOOLS.build_specs(str, "patch", ("call_tool", "search_replace"))
REQUEST = ModelRequest(model="m", system="", tools=SPECS, messages=())
FREEFORM = Capabilities(freeform_tools=True)


class Refused(Exception):
    """The answer of a server."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.body = {"error": {"message": message}}
        self.status_code = 400


def get_tools(negotiation: Negotiation, wire: str) -> dict[str, dict[str, object]]:
    """Return the tools that are sent, by name."""
    if wire == "responses":
        takes_grammar = negotiation.takes_grammar
        writer = ResponsesWire(REQUEST, provider="p", capabilities=FREEFORM, takes_grammar=takes_grammar)
        return {tool["name"]: tool for tool in writer.head()["tools"]}
    chat = ChatWire(REQUEST, provider="p", capabilities=Capabilities(), official=False, quirks=negotiation.quirks)
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.head()["tools"]}


def test_a_patch_goes_out_with_its_grammar_until_a_server_refuses_it():
    negotiation = Negotiation("P", official=False)
    tools = get_tools(negotiation, "responses")
    assert tools["apply_patch"]["format"] == {"type": "grammar", "syntax": "lark", "definition": GRAMMAR}
    refusal = Refused("Unsupported value: 'tools[1].format.type' must be 'text': grammar is not available.")
    failure = ProviderError("refused", code="request_invalid")
    assert negotiation.adapt(failure, refusal, "responses", REQUEST, {})
    assert get_tools(negotiation, "responses")["apply_patch"]["format"] == {"type": "text"}
    assert not negotiation.adapt(failure, refusal, "responses", REQUEST, {})


def test_the_arguments_of_a_called_tool_are_an_object_until_a_server_refuses_one_without_fields():
    negotiation = Negotiation("P", official=False)
    described = {"description": 'Its arguments, like {"ids": ["p1"]}.'}
    assert get_tools(negotiation, "chat")["call_tool"]["properties"]["arguments"] == {"type": "object", **described}
    refusal = Refused(
        "GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[arguments].properties: "
        "should be non-empty for OBJECT type"
    )
    failure = ProviderError("refused", code="schema_refused")
    before = get_tools(negotiation, "chat")
    assert negotiation.adapt(failure, refusal, "chat", REQUEST, {})
    after = get_tools(negotiation, "chat")
    assert after["call_tool"]["properties"]["arguments"] == {"type": "string", **described}
    assert after["apply_patch"] == before["apply_patch"]


def test_a_search_of_tools_is_a_function_where_the_server_knows_no_such_tool():
    [spec] = TOOLS.build_specs(str, names=("search_tools",))
    request = ModelRequest(model="m", system="", tools=(spec,), messages=())
    [tool] = ResponsesWire(request, provider="p", capabilities=Capabilities(tool_search=True)).head()["tools"]
    assert (tool["type"], tool["execution"], set(tool["parameters"]["properties"])) == (
        "tool_search",
        "client",
        {"query"},
    )
    [tool] = ResponsesWire(request, provider="p", capabilities=Capabilities()).head()["tools"]
    assert (tool["type"], tool["name"]) == ("function", "search_tools")
    negotiation = Negotiation("P", official=False)
    failure = ProviderError("refused", code="request_invalid")
    refusal = Refused("Invalid value: 'tool_search'. Supported values are: 'function' and 'custom'.")
    assert negotiation.adapt(failure, refusal, "responses", REQUEST, {})
    assert (negotiation.takes_search, negotiation.takes_grammar) == (False, True)


def test_a_found_tool_whose_schema_is_refused_ends_the_loading_of_tools():
    negotiation = Negotiation("P", official=True)
    failure = ProviderError("refused", code="schema_refused")
    refusal = Refused("Invalid schema for function 'mcp__x__y': schema must have type 'object'.")
    assert negotiation.adapt(failure, refusal, "responses", REQUEST, {})
    assert not negotiation.takes_search
    assert not negotiation.adapt(failure, refusal, "responses", REQUEST, {})


def test_a_tool_without_a_grammar_is_any_text():
    spec = ToolSpec(name="t", description="d", parameters={"type": "object", "properties": {}}, freeform="input")
    request = ModelRequest(model="m", system="", tools=(spec,), messages=())
    [tool] = ResponsesWire(request, provider="p", capabilities=FREEFORM).head()["tools"]
    assert tool["format"] == {"type": "text"}
