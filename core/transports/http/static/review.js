// Read and review from a phone: the sessions, what waits for an answer, the hunks with accept and reject.
// Whatever comes from the project or a model becomes a text node: nothing of it is ever markup.

import { Refused, follow, get, post } from "./api.js";
import { visible } from "./visible.js";

const main = document.querySelector("#main");
const title = document.querySelector("#title");
const link = document.querySelector("#link");
const back = document.querySelector("#back");
const REFRESH_EVENTS = /^(approval|question|change|verdict|hunk|turn|session|file|mode|todo|ports)\.|^document\.finished$/;
const SETTLE_MS = 350; // after a drawing no tap counts: it was meant for what stood there before
let following = null;
let drawnAt = 0;

function node(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function say(problem) {
  const message = problem instanceof Refused && problem.status === 401
    ? "Not logged in: open the address that `agent-tui serve` printed, with its #token."
    : problem.message;
  main.querySelector("#problem")?.remove();
  main.prepend(node("p", { id: "problem", className: "warn", role: "alert" }, visible(message)));
}

async function act(button, work) {
  button.disabled = true;
  try {
    await work();
  } catch (problem) {
    button.disabled = false;
    say(problem);
  }
}

function button(label, className, work) {
  const element = node("button", { type: "button", className }, label);
  element.addEventListener("click", () => performance.now() - drawnAt > SETTLE_MS && act(element, work));
  return element;
}

function open(session) {
  const url = new URL(location.href);
  if (session) url.searchParams.set("session", session);
  else url.searchParams.delete("session");
  history.pushState(null, "", url);
  show();
}

async function showSessions() {
  title.textContent = "agent-tui";
  back.hidden = true;
  const { signal } = following;
  const { sessions } = await get("/sessions");
  if (signal.aborted) return;
  const rows = sessions.map((session) => {
    const row = node(
      "button",
      { type: "button", className: "row" },
      node("strong", {}, visible(session.title || "Untitled")),
      node("span", { className: "faint" }, describe(session)),
      ...(session.pending ? [node("span", { className: "warn" }, ` · ${session.pending} to review`)] : []),
    );
    row.addEventListener("click", () => open(session.id));
    return row;
  });
  main.replaceChildren(...(rows.length ? rows : [node("p", { className: "faint" }, "No sessions yet.")]));
}

function describe(session) {
  const parts = [session.mode, `${session.turns} ${session.turns === 1 ? "turn" : "turns"}`];
  parts.push(new Date(session.updated).toLocaleString([], { dateStyle: "short", timeStyle: "short" }));
  if (session.problem) parts.push(session.problem);
  return parts.filter(Boolean).map(visible).join(" · ");
}

async function showSession(session) {
  back.hidden = false;
  const { signal } = following;
  const state = await draw(session, signal);
  if (!signal.aborted) watch(session, state.seq, signal);
}

async function watch(session, after, signal) {
  let last = after;
  let waits = null;
  const drawLater = (wait) => {
    waits = setTimeout(() => {
      waits = null;
      if (signal.aborted) return;
      if (isAnswering()) drawLater(1000);
      else draw(session, signal).catch(say);
    }, wait);
  };
  const onEvent = (envelope) => {
    last = Math.max(last, envelope.seq ?? 0);
    if (REFRESH_EVENTS.test(envelope.event?.type ?? "") && waits === null) {
      drawLater(200);
    }
  };
  while (!signal.aborted) {
    try {
      link.textContent = "live";
      await follow(session, last, onEvent, signal);
    } catch (problem) {
      if (signal.aborted) return;
      if (problem instanceof Refused) return say(problem);
    }
    link.textContent = "reconnecting";
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

// What is being written or chosen is not drawn over.
function isAnswering() {
  const written = [...main.querySelectorAll("textarea")].some((box) => box.value);
  return written || main.querySelector('[aria-pressed="true"]') !== null;
}

async function draw(session, signal) {
  const path = `/sessions/${encodeURIComponent(session)}`;
  const state = await get(path);
  const [said, ...diffs] = await Promise.all([
    readAnswer(state.conversationId),
    ...state.pendingChanges.map((change) => readDiff(path, change.path)),
  ]);
  if (signal.aborted) return state;
  drawnAt = performance.now();
  title.textContent = visible(state.title || "Untitled");
  const asked = [
    ...state.approvals.map((approval) => drawApproval(path, approval)),
    ...state.questions.map((question) => drawQuestion(path, question)),
  ];
  const bulks = state.pendingBulks.map((bulk) =>
    node("p", { className: "faint" }, visible(`${bulk.root}: ${bulk.files} files wait as a whole; judge them in the screen.`)),
  );
  const changes = [...diffs.flatMap((diff) => (diff ? drawChange(path, diff) : [])), ...bulks];
  main.replaceChildren(
    node("p", { className: "faint" }, visible([state.mode, state.model, state.isRunning ? "working" : "idle"].filter(Boolean).join(" · "))),
    node("p", {}, node("a", { className: "button", href: `/terminal?session=${encodeURIComponent(session)}` }, "Open the screen")),
    ...(state.trust === "asked" ? [node("p", { className: "warn" }, "Nobody has said yet that this project is trusted: say so in the screen.")] : []),
    ...state.ports.filter((port) => port.is_listening).map((port) => drawPort(path, port)),
    ...(asked.length ? [node("h2", {}, "Waits for an answer"), ...asked] : []),
    ...(said ? [node("details", { className: "card" }, node("summary", {}, "Last answer"), node("p", { className: "text" }, visible(said)))] : []),
    ...(changes.length ? changes : [node("p", { className: "faint" }, "Nothing waits for a review.")]),
  );
  return state;
}

// A server of the agent's commands. The tab is opened at once, since browsers allow it only at a tap.
function drawPort(path, { port, command }) {
  const visit = async () => {
    const tab = window.open("about:blank", "_blank");
    try {
      const { url } = await post(`${path}/ports/${port}`, {});
      if (tab) tab.location = url;
      else location.assign(url);
    } catch (problem) {
      tab?.close();
      throw problem;
    }
    element.disabled = false;
  };
  const element = button(`Open port ${port}`, "", visit);
  return node("p", { className: "actions" }, element, node("span", { className: "faint" }, visible(` ${command}`)));
}

// The diff of a change; null: it was judged meanwhile.
async function readDiff(path, changed) {
  try {
    return (await get(`${path}/diff?path=${encodeURIComponent(changed)}`)).diff;
  } catch (problem) {
    if (problem instanceof Refused && problem.status === 404) return null;
    throw problem;
  }
}

// The text of the last answer, "" = there is none.
async function readAnswer(conversation) {
  try {
    const { documents } = await get(`/chat/${encodeURIComponent(conversation)}`);
    return documents.filter((part) => part.type === "text").map((part) => part.content).join("\n\n");
  } catch (problem) {
    if (problem instanceof Refused && problem.status < 500) return "";
    throw problem;
  }
}

const DECISIONS = {
  allow_once: ["Allow once", "yes"],
  allow_session: ["Allow in this session", "yes"],
  allow_always: ["Always allow", "yes"],
  run_on_machine: ["Run on the machine", "warn"],
  reject_once: ["Refuse", "no"],
  reject_always: ["Always refuse", "no"],
};

// Of a command that asks to leave the sandbox: a yes without "run_on_machine" is one to the sandbox.
const MACHINE_DECISIONS = {
  ...DECISIONS,
  allow_once: ["Run sandboxed", "yes"],
  allow_always: ["Always run on the machine", "warn"],
};

function drawApproval(path, asked) {
  const about = [
    asked.reason,
    asked.directory && asked.directory !== "." ? `in ${asked.directory}` : "",
    asked.containment,
    asked.network?.length ? `network: ${asked.network.join(", ")}` : "",
    asked.environment?.length ? `variables: ${asked.environment.join(", ")}` : "",
    asked.permissions?.length ? `also asks for: ${asked.permissions.join(", ")}` : "",
    asked.explanation ? `The model says: ${asked.explanation}` : "",
  ];
  const choices = asked.options.map((decision) => {
    const labels = asked.kind === "machine" ? MACHINE_DECISIONS : DECISIONS;
    const [label, look] = labels[decision] ?? [decision, ""];
    return button(label, look, () => post(`${path}/approvals/${encodeURIComponent(asked.id)}`, { decision }));
  });
  return node(
    "section",
    { className: "card" },
    node("p", {}, visible(asked.kind)),
    node("pre", {}, ...visible(asked.subject).split("\n").map((line) => node("span", {}, line))),
    ...about.filter(Boolean).map((line) => node("p", { className: "faint" }, visible(line))),
    node("div", { className: "actions" }, ...choices),
  );
}

function drawQuestion(path, asked) {
  const chosen = new Map();
  const parts = asked.questions.flatMap((question) => {
    const text = node("textarea", { placeholder: "in your own words", ariaLabel: question.text });
    chosen.set(question.id, { text, options: new Set() });
    const options = question.options.map((option) => {
      const element = node("button", { type: "button", ariaPressed: "false" }, visible(option.label));
      element.addEventListener("click", () => {
        const held = chosen.get(question.id).options;
        if (!question.allow_multiple && !held.has(option.id)) {
          held.clear();
          for (const sibling of element.parentElement.children) sibling.setAttribute("aria-pressed", "false");
        }
        held.has(option.id) ? held.delete(option.id) : held.add(option.id);
        element.setAttribute("aria-pressed", String(held.has(option.id)));
        element.className = held.has(option.id) ? "yes" : "";
      });
      return element;
    });
    return [node("p", {}, visible(question.text)), node("div", { className: "actions" }, ...options), text];
  });
  const answer = async () => {
    const answers = [...chosen].map(([question, { text, options }]) => ({ question, options: [...options], text: text.value }));
    await post(`${path}/commands`, { type: "question.answer", id: asked.id, answers });
    card.remove();
  };
  const card = node("section", { className: "card" }, ...parts, node("div", { className: "actions" }, button("Answer", "yes", answer)));
  return card;
}

function drawChange(path, { change, lines, note }) {
  const moved = change.renamed_from ? `${change.renamed_from} → ` : "";
  const head = node(
    "h2",
    {},
    visible(moved + change.path),
    node("span", { className: "added" }, `+${change.added}`),
    node("span", { className: "removed" }, `−${change.removed}`),
  );
  const warnings = [change.conflict, change.protected && !change.risk ? "a protected file" : change.risk, change.broken, note].filter(Boolean);
  const cards = change.hunks.map((hunk, index) => {
    const shown = lines.filter((line) => line[4] === index);
    const near = shown.length ? surround(lines, index) : [];
    const judge = (verdict, confirmed = false) =>
      post(`${path}/verdicts`, { path: change.path, hunks: [hunk.id], verdict, confirmed });
    return node(
      "section",
      { className: "card" },
      near.length
        ? node("pre", {}, ...near.map(drawLine))
        : node("p", { className: "faint" }, hunk.moves ? "the rename" : visible(change.operation)),
      node(
        "div",
        { className: "actions" },
        change.protected
          ? button("Accept in spite of the risk", "warn", () => judge("accept", true))
          : button("Accept", "yes", () => judge("accept")),
        button("Reject", "no", () => judge("reject")),
      ),
    );
  });
  return [head, ...warnings.map((warning) => node("p", { className: "warn" }, visible(warning))), ...cards];
}

// The lines of a hunk, with the unchanged ones around it.
function surround(lines, index) {
  let first = lines.findIndex((line) => line[4] === index);
  let last = lines.findLastIndex((line) => line[4] === index);
  while (first > 0 && lines[first - 1][0] === "context") first -= 1;
  while (last + 1 < lines.length && lines[last + 1][0] === "context") last += 1;
  return lines.slice(first, last + 1);
}

function drawLine([kind, , , text]) {
  const mark = { added: "+", removed: "-" }[kind] ?? " ";
  return node("span", { className: kind }, visible(mark + text));
}

function show() {
  following?.abort();
  const { signal } = (following = new AbortController());
  link.textContent = "";
  const session = new URLSearchParams(location.search).get("session");
  (session ? showSession(session) : showSessions()).catch((problem) => {
    if (signal.aborted) return;
    main.replaceChildren();
    say(problem);
  });
}

back.addEventListener("click", () => open(""));
addEventListener("popstate", show);
show();
