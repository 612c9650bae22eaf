"""The yardstick of `-p`: the shortest script that asks a model through its official SDK and prints the answer.

`python plain_sdk.py openai|anthropic`; keys and addresses are in the environment, as the SDKs read them.
"""

from __future__ import annotations

import sys


def main() -> None:
    messages = [{"role": "user", "content": "hi"}]
    if sys.argv[1] == "openai":
        import openai

        for chunk in openai.OpenAI().chat.completions.create(model="bench-1", messages=messages, stream=True):
            if chunk.choices:
                print(chunk.choices[0].delta.content or "", end="")
    else:
        import anthropic

        with anthropic.Anthropic().messages.stream(model="bench-1", max_tokens=100, messages=messages) as stream:
            for piece in stream.text_stream:
                print(piece, end="")


if __name__ == "__main__":
    main()
