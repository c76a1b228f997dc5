// Cards of items, and a grid whose cards glide to their new places.

export function card(item, { rank, small, mark, selected }) {
  const part = document.createElement("div");
  part.className = "card";
  part.dataset.id = item.id;
  part.tabIndex = 0;
  part.setAttribute("role", small ? "group" : "listitem");
  const name = item.label ?? item.id;
  const place = small ? "query" : `number ${rank + 1}`;
  part.setAttribute("aria-label", `${place}, ${name}${mark ? `, marked ${mark}` : ""}${selected ? ", selected" : ""}`);
  if (mark) part.dataset.mark = mark;
  if (selected) part.setAttribute("aria-pressed", "true");
  if (item.picture) {
    const picture = document.createElement("img");
    picture.src = `/api/v1/items/${encodeURIComponent(item.id)}/picture`;
    picture.alt = "";
    picture.loading = "lazy";
    picture.addEventListener("load", () => picture.classList.toggle("pixels", picture.naturalWidth < 64));
    part.append(picture);
  }
  if (item.text) {
    const text = document.createElement("p");
    text.textContent = item.text;
    part.append(text);
  }
  const line = document.createElement("div");
  line.className = "line";
  const left = document.createElement("span");
  left.className = mark ? "verdict" : "";
  left.textContent = mark ? (mark === "right" ? "✓ right" : "✗ wrong") : small ? `${name}` : `${rank + 1}`;
  line.append(left);
  if (!small && item.score !== undefined) {
    const score = document.createElement("span");
    score.className = "moved";
    const moved = item.moved ? ` ${item.moved > 0 ? "↑" : "↓"}${Math.abs(item.moved)}` : "";
    score.textContent = `${item.score.toPrecision(3)}${moved}`;
    score.title = "distance; arrows: places gained or lost";
    line.append(score);
  }
  part.append(line);
  return part;
}

export function quickly(grid, cards) {
  const focused = document.activeElement?.closest?.(".card")?.dataset.id;
  const inside = grid.contains(document.activeElement);
  const places = new Map([...grid.children].map((part) => [part.dataset.id, part.getBoundingClientRect()]));
  grid.replaceChildren(...cards);
  for (const part of cards) {
    const old = places.get(part.dataset.id);
    if (!old) continue;
    const now = part.getBoundingClientRect();
    const [x, y] = [old.left - now.left, old.top - now.top];
    if (!x && !y) continue;
    part.style.transform = `translate(${x}px, ${y}px)`;
    requestAnimationFrame(() => {
      part.classList.add("moving");
      part.style.transform = "";
    });
  }
  if (inside && focused) cards.find((part) => part.dataset.id === focused)?.focus({ preventScroll: true });
}
