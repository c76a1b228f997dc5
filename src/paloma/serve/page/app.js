// The page: one state, one function that draws each part of it.

import * as api from "./api.js";
import { card, glide } from "./cards.js";
import { chart } from "./chart.js";

const at = (id) => document.getElementById(id);
const view = { user: "", finding: false, asking: false, query: [], results: [], marks: new Map(), selected: new Set(), metric: "now", done: [], lines: 50, turn: 0 };

function say(text, bad = false) {
  at("status").textContent = text;
  at("status").classList.toggle("bad", bad);
}

async function trying(work) {
  try {
    await work();
  } catch (error) {
    say(error.message, true);
  }
}

const query = () => (view.query.length === 1 ? { item: view.query[0].id } : { items: view.query.map((item) => item.id) });

async function search(options = {}) {
  if (!view.query.length) return;
  const asked = { k: 24, user: view.user, metric: view.metric };
  const started = performance.now();
  const turn = ++view.turn;
  const found = await api.search(query(), asked);
  if (turn !== view.turn) return; // something else was asked for in the meantime
  const ranks = new Map(view.results.map((item, rank) => [item.id, rank]));
  view.results = found.results.map((item, rank) => ({ ...item, moved: ranks.has(item.id) ? ranks.get(item.id) - rank : null }));
  if (!options.quiet) say(`${view.results.length} nearest, in ${Math.round(performance.now() - started)} ms.`);
  view.finding = view.asking = false;
  draw();
}

const refresh = () => Promise.all([view.asking ? draw() : search({ quiet: true }), aside()]);

function draw() {
  const showing = (part, items, small) => glide(part, items.map((item, rank) => card(item, {
    rank, small, finding: view.finding, mark: view.marks.get(item.id)?.verdict, selected: view.selected.has(item.id),
  })));
  for (const [part, items] of [["results", view.results], ["query", view.query]]) {
    at(part).classList.toggle("text", items.some((item) => !item.picture));
  }
  at("results-title").textContent = view.finding ? "Found" : view.asking ? "Worth marking" : "Nearest";
  at("how").hidden = view.finding;
  showing(at("query"), view.query, true);
  showing(at("results"), view.results, false);
  at("more").disabled = !view.selected.size;
  at("undo").disabled = !view.done.length;
}

function ranked(metric) {
  view.metric = metric;
  document.querySelector(`input[name=metric][value=${metric}]`).checked = true;
}

function show(values) {
  Object.assign(view, { finding: false, asking: false, marks: new Map(), selected: new Set(), ...values, turn: view.turn + 1 });
  ranked("now");
  at("why-part").hidden = true;
}

async function begin(items) {
  show({ query: items, results: [] });
  await search();
}

async function mark(id, verdict) {
  if (view.finding) return like(id);
  if (view.query.some((item) => item.id === id)) return;
  const before = view.marks.get(id);
  if (before?.verdict === verdict) return undo({ statement: before.seq });
  if (before) await takeBack({ statement: before.seq });
  const others = (kind) => [...view.marks].filter(([other, made]) => made.verdict === kind && other !== id).map(([other]) => other);
  const statement = { kind: "mark", user: view.user, ...query() }; // with what was marked the other way: it is compared with that
  statement.relevant = verdict === "right" ? [id] : others("right");
  statement.irrelevant = verdict === "wrong" ? [id] : others("wrong");
  const done = await api.state(statement);
  view.done.push(done.seq);
  view.marks.set(id, { verdict, seq: done.seq });
  ranked("now");
  await refresh();
  const now = view.results.findIndex((item) => item.id === id);
  say(`Marked ${verdict}${view.asking ? "" : `: it is ${now < 0 ? "no longer among the nearest" : `number ${now + 1}`} now`}. Undo with U.`);
}

async function takeBack(what) {
  await api.undo({ user: view.user, ...what }).catch((error) => {
    if (error.status !== 404) throw error; // somebody else took it back
  });
  view.done = view.done.filter((seq) => seq !== what.statement);
  for (const [id, made] of view.marks) if (made.seq === what.statement) view.marks.delete(id);
}

async function undo(what = { statement: view.done.at(-1) }) {
  await takeBack(what);
  await refresh();
  say("Taken back, as if it had never been said.");
}

async function why(id) {
  if (view.finding) return;
  const found = await api.explain(query(), id, view.user);
  const most = Math.max(...found.parts.map((part) => Math.abs(part.now)), 1e-12);
  const rows = found.parts.map((part) => {
    const row = document.createElement("div");
    row.className = "bar";
    const bar = document.createElement("div");
    bar.style.width = `${(100 * Math.abs(part.now)) / most}%`;
    bar.classList.toggle("less", part.now < part.start);
    const name = document.createElement("span");
    name.textContent = part.name;
    name.title = part.name;
    const value = document.createElement("span");
    value.textContent = `${part.now.toPrecision(2)}`;
    value.title = `without feedback ${part.start.toPrecision(2)}`;
    row.append(name, bar, value);
    return row;
  });
  const total = document.createElement("p");
  total.className = "hint";
  total.textContent = `Squared distance ${found.now.toPrecision(3)}, without feedback ${found.start.toPrecision(3)}. ` +
    "Each bar is a feature's share; green bars shrank through feedback.";
  const { label } = view.results.find((item) => item.id === id) ?? {};
  at("why-title").textContent = `Why is ${label ?? id} near?`;
  at("why").replaceChildren(total, ...rows);
  at("why-part").hidden = false;
  at("why-part").scrollIntoView({ block: "nearest" });
}

const percent = (share) => `${(100 * share).toFixed(0)} %`;

function brief({ statements, judged, now, start, strength, distrusted }) {
  if (!statements) return "Nothing was said yet: this is the plain distance between items.";
  const count = `${statements} statement${statements === 1 ? "" : "s"}`;
  if (judged < 3) return `${count} so far; too few to judge how well it goes.`;
  const held = strength < 1 ? " It is held back, because a weaker ranking predicts recent statements better." : "";
  const names = distrusted.map((name) => name || "everyone").join(", ");
  return `${count}: ${percent(now)} of comparisons ranked right before they were learned, ${percent(start)} without feedback.` +
    held + (names ? ` Not believed: ${names}.` : "");
}

function moment(seconds) {
  const then = new Date(seconds * 1000);
  const day = then.toDateString() === new Date().toDateString() ? "" : `${then.toLocaleDateString()} `;
  return day + then.toLocaleTimeString([], { timeStyle: "short" });
}

async function aside() {
  const [said, quality, people] = await Promise.all([api.history(view.lines), api.quality(), api.users()]);
  at("earlier").hidden = said.next === null || view.lines >= 1000;
  at("history").replaceChildren(...said.statements.map((entry) => {
    const line = document.createElement("li");
    line.classList.toggle("undone", entry.undone);
    line.textContent = `${moment(entry.at)} ${entry.user || "everyone"}: ${entry.text}`;
    if (!entry.undone && !["undo", "publish"].includes(entry.kind)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "take back";
      button.setAttribute("aria-label", `Take back: ${entry.text}`);
      button.addEventListener("click", () => trying(() => undo({ statement: entry.seq })));
      line.append(button);
    }
    return line;
  }));
  chart(at("chart"), quality);
  at("quality-brief").textContent = brief(quality);
  const names = [...new Set([view.user, ...people.users])].sort();
  at("user").replaceChildren(...names.map((name) => new Option(name || "everyone", name, false, name === view.user)));
}

async function another() {
  const { items } = await api.sample();
  await begin(items.slice(0, 1));
}

async function find() {
  const words = at("words").value.trim();
  if (!words) return at("words").focus();
  const { items } = await api.find(words);
  say(items.length ? `${items.length} found. Which one do you look for things like?` : `Nothing is called “${words}”.`);
  if (!items.length) return;
  show({ finding: true, results: items });
  draw();
  at("results").firstElementChild.focus();
}

async function next() {
  const found = await api.suggest(12, view.user);
  if (!found.items.length) return say("Nothing to suggest yet.");
  show({ asking: true, query: [found.query], results: found.items });
  draw();
  say("Marks on these teach the search most. Which are like the one above?");
}

const actions = {
  "/": () => at("words").focus(),
  n: another,
  s: next,
  u: () => view.done.length && undo(),
  m: () => view.selected.size && begin([...view.results, ...view.query].filter((item) => view.selected.has(item.id))),
};

const like = (id) => begin([...view.results, ...view.query].filter((item) => item.id === id).slice(0, 1));

const onCard = {
  r: (id) => mark(id, "right"),
  w: (id) => mark(id, "wrong"),
  y: why,
  " ": (id) => {
    if (!view.selected.delete(id)) view.selected.add(id);
    draw();
  },
  enter: like,
};
const deeds = { right: onCard.r, wrong: onCard.w, like, why, pick: onCard[" "] };

function step(card, by) {
  const all = [...card.parentElement.children];
  const across = getComputedStyle(card.parentElement).gridTemplateColumns.split(" ").length;
  const move = { arrowright: 1, arrowleft: -1, arrowdown: across, arrowup: -across }[by];
  all[Math.min(Math.max(all.indexOf(card) + move, 0), all.length - 1)].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.target.matches("input, select, textarea")) return;
  const name = event.key.toLowerCase();
  const card = event.target.closest(".card");
  if (card && name.startsWith("arrow")) step(card, name);
  else if (event.repeat) return; // a key that is held says nothing twice
  else if (card && onCard[name]) trying(() => onCard[name](card.dataset.id));
  else if (actions[name] && !event.altKey && !event.target.closest("button")) trying(() => actions[name]());
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const card = event.target.closest("#results .card");
  if (!card) return;
  const deed = event.target.closest("button")?.dataset.deed ?? (event.altKey ? "wrong" : "right");
  if (event.detail > 1 && deed !== "pick") return; // the second click of two may meet another card
  trying(() => deeds[deed](card.dataset.id));
});
at("find").addEventListener("submit", (event) => {
  event.preventDefault();
  trying(find);
});

for (const [id, name] of Object.entries({ another: "n", next: "s", undo: "u", more: "m" })) {
  at(id).addEventListener("click", () => trying(() => actions[name]()));
}
for (const input of document.querySelectorAll("input[name=metric]")) {
  input.addEventListener("change", () => trying(() => {
    view.metric = input.value;
    return search();
  }));
}
at("user").addEventListener("change", () => trying(async () => {
  view.user = at("user").value;
  view.done = [];
  await search();
}));
at("new-user").addEventListener("click", () => trying(async () => {
  const name = prompt("Name of the new person")?.trim();
  if (!name || name === "everyone") return;
  view.user = name;
  await aside();
  await search();
}));

at("earlier").addEventListener("click", () => trying(() => {
  view.lines += 100;
  return aside();
}));

trying(async () => {
  const { text } = await api.about();
  at("version").textContent = text;
  await another();
  await aside();
});
