// The way to the API. The token comes in the fragment of the address, which no server sees, and stays in this tab.

const KEPT = "agent-tui-token";

function takeToken() {
  const given = location.hash.slice(1);
  if (given && !given.includes("/")) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEPT) ?? "";
}

const token = takeToken();

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, init) {
  const headers = { Authorization: `Bearer ${token}`, ...init.headers };
  const answer = await fetch(`/api/v1${path}`, { ...init, headers, cache: "no-store" });
  if (answer.ok) return answer;
  let said = answer.statusText;
  try {
    const told = (await answer.json()).error;
    said = [told.message, told.hint].filter(Boolean).join(" ");
  } catch {
    // not one of the API's own answers
  }
  throw new Refused(answer.status, said || `refused (${answer.status})`);
}

export async function get(path) {
  return (await send(path, { method: "GET" })).json();
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const answer = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  return answer.json();
}

// Calls `onEvent` with each event of a session until `signal` is aborted or the stream ends. EventSource can't send
// the token, so the stream is read by hand.
export async function follow(session, after, onEvent, signal) {
  const path = `/sessions/${encodeURIComponent(session)}/events?after=${after}`;
  const answer = await send(path, { method: "GET", headers: { Accept: "text/event-stream" }, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (held + value).replaceAll("\r\n", "\n").split("\n\n");
    held = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (data.length) onEvent(JSON.parse(data.join("\n")));
    }
  }
}
