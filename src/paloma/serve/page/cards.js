// Cards of items, and a grid whose cards glide to their new places.

const DEEDS = [
  ["right", "✓", "Right (R)"],
  ["wrong", "✗", "Wrong (W)"],
  ["like", "≈", "Search like it (Enter)"],
  ["why", "?", "Why is it near? (Y)"],
];

function make(name, values, ...parts) {
  const part = Object.assign(document.createElement(name), values);
  part.append(...parts);
  return part;
}

export function card(item, { rank, small, finding, mark, selected }) {
  const name = item.label ?? item.id;
  const fields = Object.entries(item.payload).filter(([, value]) => value !== "").map(([field, value]) => `${field}: ${value}`);
  const part = make("div", { className: "card", tabIndex: 0, title: [name, ...fields].join("\n") });
  part.dataset.id = item.id;
  part.setAttribute("role", small ? "group" : "listitem");
  const state = `${mark ? `, marked ${mark}` : ""}${selected ? ", selected" : ""}`;
  part.setAttribute("aria-label", `${small ? "query" : `number ${rank + 1}`}, ${name}${state}`);
  if (mark) part.dataset.mark = mark;
  if (selected) part.dataset.selected = "yes";
  if (item.picture) {
    const picture = make("img", { src: `/api/v1/items/${encodeURIComponent(item.id)}/picture`, alt: "", draggable: false });
    picture.addEventListener("load", () => picture.classList.toggle("pixels", picture.naturalWidth < 64));
    part.append(picture);
  }
  if (item.text && item.label && !small) part.append(make("p", { className: "name", textContent: name }));
  if (item.text || !item.picture) part.append(make("p", { textContent: item.text ?? name }));
  if (!item.picture && fields.length) part.append(make("p", { className: "fields", textContent: fields.slice(0, 4).join(" · ") }));
  if (small) {
    if (item.text || item.picture) part.append(make("div", { className: "line" }, make("span", { textContent: name })));
    return part;
  }
  const moved = item.moved ? `${item.moved > 0 ? "↑" : "↓"}${Math.abs(item.moved)}` : "";
  const score = item.score === undefined ? "" : item.score.toPrecision(3);
  part.append(make("div", { className: "line" },
    make("span", { textContent: `${rank + 1}${mark ? (mark === "right" ? " ✓" : " ✗") : ""}`, className: mark ? "verdict" : "" }),
    make("span", { textContent: `${moved} ${score}`.trim(), className: "score", title: "places gained or lost, and distance" })));
  const button = ([deed, sign, title]) => {
    const made = make("button", { type: "button", textContent: sign, title, tabIndex: -1 });
    made.dataset.deed = deed;
    made.setAttribute("aria-label", `${title.replace(/ \(.*/, "")}: ${name}`);
    return made;
  };
  part.append(button(["pick", selected ? "selected" : "+", selected ? "Select no more (Space)" : "Select (Space)"]));
  part.append(make("div", { className: "deeds" }, ...DEEDS.filter(([deed]) => deed === "like" || !finding).map(button)));
  return part;
}

export function glide(grid, cards) {
  const focused = grid.contains(document.activeElement) ? document.activeElement.closest(".card")?.dataset.id : undefined;
  const places = new Map([...grid.children].map((part) => [part.dataset.id, part.getBoundingClientRect()]));
  grid.replaceChildren(...cards);
  for (const part of cards) {
    const old = places.get(part.dataset.id);
    const now = part.getBoundingClientRect();
    if (!old) part.classList.add("fresh");
    else if (old.left !== now.left || old.top !== now.top) {
      part.style.transform = `translate(${old.left - now.left}px, ${old.top - now.top}px)`;
      requestAnimationFrame(() => {
        part.classList.add("moving");
        part.style.transform = "";
      });
    }
  }
  if (focused !== undefined) (cards.find((part) => part.dataset.id === focused) ?? cards[0])?.focus({ preventScroll: true });
}
