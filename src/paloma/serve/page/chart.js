// Quality against statements: share of judged comparisons ranked right before they were learned, with and without feedback.

const NS = "http://www.w3.org/2000/svg";

function make(name, attributes, text) {
  const part = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
  if (text !== undefined) part.textContent = text;
  return part;
}

export function chart(place, { curve, text, statements }) {
  const caption = document.createElement("p");
  caption.className = "hint";
  caption.textContent = "Share of comparisons ranked right before they were learned, among the last hundred that could be judged: " +
    "the line is this search, the dashes are no feedback.";
  if (curve.length < 2) {
    caption.textContent = `A chart appears once statements with something right and something wrong were judged (${statements} so far).`;
    return place.replaceChildren(caption);
  }
  const [width, height, left, low] = [420, 190, 34, 22];
  const values = curve.flatMap((point) => [point.now, point.start]);
  const floor = Math.max(0, Math.min(...values) - 0.05);
  const x = (k) => left + (k / (curve.length - 1)) * (width - left - 8);
  const y = (v) => 8 + (1 - (v - floor) / (1 - floor)) * (height - low - 8);
  const path = (name) => curve.map((point, k) => `${k ? "L" : "M"}${x(k).toFixed(1)},${y(point[name]).toFixed(1)}`).join("");
  const svg = make("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text });
  for (const level of [floor, (1 + floor) / 2, 1]) {
    svg.append(make("line", { x1: left, x2: width - 8, y1: y(level), y2: y(level) }));
    svg.append(make("text", { x: 2, y: y(level) + 4 }, level.toFixed(2)));
  }
  svg.append(make("path", { class: "base", d: path("start") }), make("path", { class: "curve", d: path("now") }));
  svg.append(make("text", { x: left, y: height - 4 }, `${curve[0].judged} judged`));
  svg.append(make("text", { x: width - 8, "text-anchor": "end", y: height - 4 }, `${curve.at(-1).judged} judged`));
  place.replaceChildren(svg, caption);
}
