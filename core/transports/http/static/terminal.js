// The real screen of one session: asks for a ticket, then lets the front end of textual-serve draw it.

import { post } from "./api.js";

const said = document.querySelector("#said");
const session = new URLSearchParams(location.search).get("session") ?? "";

function say(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Open it again";
  button.addEventListener("click", () => location.reload());
  said.replaceChildren(document.createTextNode(text), button);
  document.body.classList.add("-closed");
}

function load(source) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = source;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("The front end could not be loaded.")));
    document.head.append(script);
  });
}

async function open() {
  const { path } = await post("/terminals", { session });
  const place = document.querySelector("#terminal");
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  place.dataset.sessionWebsocketUrl = `${scheme}//${location.host}${path}`;
  place.classList.add("textual-terminal");
  const watch = new MutationObserver(() => {
    if (document.body.classList.contains("-closed")) {
      watch.disconnect();
      say("The screen was closed. The session goes on.");
    }
  });
  watch.observe(document.body, { attributeFilter: ["class"] });
  await document.fonts.load('16px "Roboto Mono"');
  await load("/static/xterm/js/textual.js");
  window.onload(); // it waits for an event that was long ago
  place.querySelector("textarea").focus(); // where xterm.js hears of keys
}

open().catch((problem) => say(problem.message));
