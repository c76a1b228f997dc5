// The API of the service: one function per route the page uses. Every answer carries `seq`; what is asked next waits for it.

let seen = 0;

async function ask(method, path, body, patience = 60_000) {
  const request = { method };
  if (body !== undefined) Object.assign(request, { headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  for (const stop = performance.now() + patience; ;) {
    const answer = await fetch(`/api/v1${path}`, request).catch(() => {
      throw new Error("The service does not answer. Is it still running?");
    });
    const found = await answer.json().catch(() => ({}));
    if (typeof found.seq === "number") seen = Math.max(seen, found.seq);
    if (answer.ok) return found;
    if (answer.status === 401) throw new Error("This login has ended. Open the address that paloma serve printed when it was started.");
    if (answer.status !== 503 || performance.now() > stop) {
      throw Object.assign(new Error(found.error ?? `The service answered ${answer.status}.`), { status: answer.status });
    }
    await new Promise((done) => setTimeout(done, 1000)); // it learns, or its disk refuses
  }
}

const say = (path, said) => ask("POST", path, { key: key(), ...said }, 3000);
const key = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

export const search = (query, options) => ask("POST", "/search", { ...query, ...options, after: seen });
export const state = (statement) => say("/statements", statement);
export const undo = (what) => say("/undo", what);
export const history = (n) => ask("GET", `/statements?limit=${n}&after=${seen}`);
export const explain = (query, item, user) => ask("POST", "/explain", { ...query, other: item, user, after: seen });
export const suggest = (n, user) => ask("GET", `/suggest?n=${n}&user=${encodeURIComponent(user)}&after=${seen}`);
export const quality = () => ask("GET", `/quality?after=${seen}`);
export const users = () => ask("GET", `/users?after=${seen}`);
export const find = (words) => ask("GET", `/items?limit=48&find=${encodeURIComponent(words)}`);
export const sample = () => ask("GET", "/items/sample");
export const about = () => ask("GET", "/version");
