// The API of the service: one function per route the page uses. Every answer carries `seq`; what is asked next waits for it.

let seen = 0;

async function ask(method, path, body) {
  const answer = await fetch(`/api/v1${path}`, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `The service answered ${answer.status}.`);
  if (typeof found.seq === "number") seen = Math.max(seen, found.seq);
  return found;
}

const key = () => crypto.randomUUID();

export const search = (query, options) => ask("POST", "/search", { ...query, ...options, after: seen });
export const state = (statement) => ask("POST", "/statements", { key: key(), ...statement });
export const undo = (what) => ask("POST", "/undo", { key: key(), ...what });
export const history = () => ask("GET", `/statements?limit=50&after=${seen}`);
export const explain = (query, item, user) => ask("POST", "/explain", { ...query, other: item, user, after: seen });
export const suggest = (n, user) => ask("GET", `/suggest?n=${n}&user=${encodeURIComponent(user)}&after=${seen}`);
export const quality = () => ask("GET", `/quality?after=${seen}`);
export const users = () => ask("GET", `/users?after=${seen}`);
export const find = (words) => ask("GET", `/items?limit=48&find=${encodeURIComponent(words)}`);
export const sample = () => ask("GET", "/items/sample");
export const about = () => ask("GET", "/version");
