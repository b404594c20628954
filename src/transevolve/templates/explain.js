"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const D = data.depths.length, H = data.heads, n = data.tokens.length;
const attention = unpack(data.attention);
const state = { time: D, head: data.head, view: 0, token: null, timer: null };
const $ = (id) => document.getElementById(id);

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

function draw(parent, tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
function ramp(stops, t) {
  const at = Math.max(0, Math.min(1, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
  return `rgb(${mix(stops[i], stops[i + 1], at - i)})`;
}
const LIGHT = {
  place: [[68, 1, 84], [59, 82, 139], [33, 145, 140], [70, 180, 90], [190, 175, 20]],
  heat: [[247, 249, 252], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
  warm: [[252, 250, 247], [253, 208, 162], [241, 140, 60], [194, 87, 26], [110, 40, 8]],
};
const DARK = {
  place: [[176, 120, 220], [110, 150, 230], [60, 190, 185], [110, 215, 120], [230, 215, 70]],
  heat: [[28, 36, 46], [28, 62, 96], [38, 104, 166], [96, 170, 232], [214, 234, 252]],
  warm: [[34, 30, 27], [92, 50, 22], [160, 84, 32], [228, 132, 64], [255, 214, 176]],
};
const darkMode = matchMedia("(prefers-color-scheme: dark)");
const palette = () => (darkMode.matches ? DARK : LIGHT);
const onStrong = () => (darkMode.matches ? "#11161c" : "white");
const placeColour = (i) => ramp(palette().place, n > 1 ? i / (n - 1) : 0);
const classColour = (c) => `var(--c${c % 8})`;
const available = (svg) => Math.max(280, svg.parentElement.clientWidth - 2 * parseFloat(getComputedStyle(svg.parentElement).paddingLeft));
const percent = (p) => `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;
const large = (f) => (f < 9.95 ? f.toFixed(1) : f.toFixed(0));
const times = (f) => (f < 0.95 ? `×1/${large(1 / f)}` : `×${large(f)}`);
const several = data.depths.some(([block]) => block > 1);
const depthName = (k) => (k === 0 ? "start" : several ? `${data.depths[k - 1][0]}.${data.depths[k - 1][1]}` : `${k}`);
const current = () => Math.round(state.time);
const acting = () => Math.max(1, current());
const matrix = (l, h) => (i, j) => attention[(((l - 1) * H + h) * n + i) * n + j] / 65535;

function showReadout() {
  const svg = $("readout"), W = available(svg), left = 56, right = W - 22, top = 10, bottom = 230;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${W} ${bottom + 50}`);
  const x = (k) => left + (right - left) * (k / D), y = (p) => bottom - (bottom - top) * p;
  for (const p of [0, 0.25, 0.5, 0.75, 1]) {
    draw(svg, "line", { x1: left, x2: right, y1: y(p), y2: y(p), class: "grid" });
    draw(svg, "text", { x: left - 8, y: y(p) + 4, "text-anchor": "end", class: "soft" }, `${100 * p} %`);
  }
  draw(svg, "line", { x1: x(state.time), x2: x(state.time), y1: top, y2: bottom, style: "stroke:var(--accent)", "stroke-dasharray": "4 3" });
  const every = Math.ceil((D + 1) / Math.max(2, Math.floor((right - left) / 44)));
  for (let k = 0; k <= D; k++) {
    if (k % every === 0 || k === D) draw(svg, "text", { x: x(k), y: bottom + 20, "text-anchor": "middle", class: "soft" }, depthName(k));
  }
  draw(svg, "text", { x: (left + right) / 2, y: bottom + 42, "text-anchor": "middle", class: "soft" }, "after depth");
  for (let k = 0; k <= D; k++) {
    const half = (right - left) / D / 2;
    const area = draw(svg, "rect", { x: x(k) - half, y: top, width: 2 * half, height: bottom - top + 30, fill: "transparent", style: "cursor:pointer" });
    area.addEventListener("click", () => { stop(); go(k); });
  }
  const now = data.readout[current()], best = now.indexOf(Math.max(...now)), order = [...now.keys()].sort((a, b) => now[b] - now[a]);
  for (const c of order.slice().reverse()) {
    const row = data.readout.map((p) => p[c]), colour = `--c:${classColour(c)}`;
    draw(svg, "polyline", { points: row.map((p, k) => `${x(k)},${y(p)}`).join(" "), class: "line", style: colour });
    row.forEach((p, k) => {
      const dot = draw(svg, "circle", { cx: x(k), cy: y(p), r: k === current() ? 5.5 : 3.5, class: "dot", style: colour });
      draw(dot, "title", {}, `${data.labels[c]}, ${k === 0 ? "at the start" : `after depth ${depthName(k)}`}: ${percent(p)}`);
    });
  }
  $("classes").replaceChildren(...order.map((c) => {
    const item = document.createElement("li");
    item.textContent = `● ${data.labels[c]} ${percent(now[c])}`;
    item.style.color = classColour(c);
    return item;
  }));
  const when = current() === 0 ? "Before the first depth" : `After depth ${depthName(current())}`;
  $("readout-note").textContent = `The last norm and the classifier, applied to the tokens as they are at each depth. ${when} it would predict ` +
    `${data.labels[best]} (${percent(now[best])}).${data.left_out}`;
}

function showParticles() {
  const svg = $("particles"), W = available(svg), edge = Math.min(46, W / 12), { points, sentence } = data.views[state.view];
  svg.replaceChildren();
  const all = points.flat(), xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((W - 2 * edge - Math.min(60, W / 8)) / (x1 - x0 || 1), (620 - 2 * edge) / (y1 - y0 || 1));
  const Y = Math.max(320, (y1 - y0) * scale + 2 * edge);
  svg.setAttribute("viewBox", `0 0 ${W} ${Y}`);
  $("projection").textContent = sentence;
  [...$("views").children].forEach((button, v) => button.setAttribute("aria-pressed", v === state.view));
  const at = (p) => [W / 2 + (p[0] - (x0 + x1) / 2) * scale, Y / 2 - (p[1] - (y0 + y1) / 2) * scale];
  const whole = Math.floor(state.time), part = state.time - whole, taken = [], dots = [];
  for (let i = 0; i < n; i++) {
    const path = points.map((stopAt) => at(stopAt[i]));
    const from = path[whole], to = path[Math.min(D, whole + 1)];
    const here = [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
    const dim = state.token !== null && state.token !== i;
    const line = (corners, attributes) => draw(svg, "polyline", { points: corners.join(" "), fill: "none", ...attributes });
    line(path, { class: "track", "stroke-width": 1 });
    line([...path.slice(0, whole + 1), here], { stroke: placeColour(i), "stroke-width": state.token === i ? 3 : 1.6, opacity: dim ? 0.12 : 0.55 });
    draw(svg, "circle", { cx: path[0][0], cy: path[0][1], r: 3, style: "fill:var(--paper)", stroke: placeColour(i), opacity: dim ? 0.2 : 1 });
    for (const p of path.slice(1, whole + 1)) draw(svg, "circle", { cx: p[0], cy: p[1], r: 2, fill: placeColour(i), opacity: dim ? 0.1 : 0.6 });
    dots.push({ i, here, dim });
  }
  dots.sort((a, b) => (b.i === state.token) - (a.i === state.token));
  for (const { i, here } of dots) taken.push([here[0] - 6, here[1] - 6, here[0] + 6, here[1] + 6, i]);
  for (const { i, here, dim } of dots) {
    const dot = draw(svg, "circle", { cx: here[0], cy: here[1], r: state.token === i ? 8 : 6, fill: placeColour(i), "stroke-width": 1.5, opacity: dim ? 0.25 : 1, style: "cursor:pointer;stroke:var(--paper)" });
    draw(dot, "title", {}, data.tokens[i]);
    watch(dot, i);
    const width = 8 * data.tokens[i].length + 4;
    const places = [[10, 5, "start"], [-10, 5, "end"], [0, -11, "middle"], [0, 20, "middle"], [10, -8, "start"], [10, 17, "start"]];
    const free = places.map(([dx, dy, anchor]) => {
      const x = here[0] + dx - (anchor === "end" ? width : anchor === "middle" ? width / 2 : 0), y = here[1] + dy;
      return { dx, dy, anchor, box: [x, y - 13, x + width, y + 3, i] };
    }).find(({ box }) => box[0] > 0 && box[2] < W && taken.every((t) => t[4] === i || box[2] < t[0] || box[0] > t[2] || box[3] < t[1] || box[1] > t[3]));
    if (free === undefined || dim) continue;
    taken.push([...free.box.slice(0, 4), -1]);
    draw(svg, "text", { x: here[0] + free.dx, y: here[1] + free.dy, "text-anchor": free.anchor, "pointer-events": "none" }, data.tokens[i]);
  }
}

function showAttention() {
  const svg = $("attention"), l = acting(), h = state.head, cell = Math.max(13, Math.min(28, 680 / n));
  const side = 96, bars = 120, headroom = 84, size = cell * n, middle = bars / 2 + 8;
  const W = side + size + 120, Y = bars + headroom + size + 26, font = Math.min(13, cell);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${W} ${Y}`);
  svg.setAttribute("width", W);
  const value = matrix(l, h), drift = data.drift.map((depth) => depth[h]);
  const reach = Math.max(Math.log(1.5), ...drift.flat().map(Math.abs)), top = data.largest[h];
  draw(svg, "line", { x1: side, x2: side + size, y1: middle, y2: middle, style: "stroke:var(--soft)" });
  for (const [b, y] of [[reach, middle - bars / 2], [0, middle], [-reach, middle + bars / 2]]) {
    draw(svg, "text", { x: side - 10, y: y + 4, "text-anchor": "end", class: "soft" }, times(Math.exp(b)));
  }
  draw(svg, "text", { x: side + size + 12, y: middle - 6, class: "soft" }, "drift of");
  draw(svg, "text", { x: side + size + 12, y: middle + 10, class: "soft" }, "each key");
  for (let j = 0; j < n; j++) {
    const b = drift[l - 1][j], long = (Math.abs(b) / reach) * (bars / 2);
    const bar = draw(svg, "rect", { x: side + j * cell + cell * 0.18, width: cell * 0.64, y: b > 0 ? middle - long : middle, height: Math.max(0.5, long), style: `fill:var(${b > 0 ? "--c1" : "--c7"})` });
    draw(bar, "title", {}, `${data.tokens[j]}: ${times(Math.exp(b))}`);
    const x = side + (j + 0.5) * cell, y = bars + headroom + 12;
    draw(svg, "text", { x, y, style: `font-size:${font}px`, transform: `rotate(-60 ${x} ${y})`, "font-weight": state.token === j ? 700 : 400 }, clipped(data.tokens[j]));
  }
  for (let i = 0; i < n; i++) {
    const y = bars + headroom + 18 + i * cell;
    draw(svg, "text", { x: side - 8, y: y + cell * 0.7, "text-anchor": "end", style: `font-size:${font}px`, "font-weight": state.token === i ? 700 : 400 }, clipped(data.tokens[i]));
    for (let j = 0; j < n; j++) {
      const p = value(i, j);
      const square = draw(svg, "rect", { x: side + j * cell, y, width: cell - 1, height: cell - 1, fill: ramp(palette().heat, p / top) });
      draw(square, "title", {}, `${data.tokens[i]} attends to ${data.tokens[j]}: ${percent(p)}`);
    }
  }
  for (let k = 0; k <= 40; k++) draw(svg, "rect", { x: side + size + 14, y: bars + headroom + 18 + (40 - k) * 3, width: 14, height: 3.3, fill: ramp(palette().heat, k / 40) });
  draw(svg, "text", { x: side + size + 34, y: bars + headroom + 26, class: "soft" }, percent(top));
  draw(svg, "text", { x: side + size + 34, y: bars + headroom + 142, class: "soft" }, "0 %");
  let most = 0, sums = [];
  for (let j = 0; j < n; j++) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += value(i, j);
    sums.push(sum / n);
    if (sums[j] > sums[most]) most = j;
  }
  const moved = data.evolves ? ` The bars above are the drift: what depth ${depthName(l)} multiplies each column by, before rows sum to one again.` : "";
  $("looked").textContent = `Each row shows the attention of the token on the left at depth ${depthName(l)} in head ${h + 1}: ` +
    `a stronger colour is more attention. Most of it goes to “${data.tokens[most]}” (${percent(sums[most])} of all).${moved}`;
}

const clipped = (token) => (token.length > 11 ? `${token.slice(0, 10)}…` : token);

function showDrift() {
  const svg = $("drift"), cell = 62, tall = 34, left = 90, top = 30;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${left + H * cell + 20} ${top + D * tall + 16}`);
  svg.setAttribute("width", left + H * cell + 20);
  const largest = Math.max(...data.strength.flat(), 1e-9);
  for (let h = 0; h < H; h++) draw(svg, "text", { x: left + (h + 0.5) * cell, y: top - 10, "text-anchor": "middle", class: "soft" }, `head ${h + 1}`);
  for (let l = 1; l <= D; l++) {
    draw(svg, "text", { x: left - 10, y: top + (l - 0.5) * tall + 4, "text-anchor": "end", class: "soft" }, `depth ${depthName(l)}`);
    for (let h = 0; h < H; h++) {
      const strength = data.strength[l - 1][h], chosen = l === acting() && h === state.head;
      const box = draw(svg, "rect", { x: left + h * cell + 2, y: top + (l - 1) * tall + 2, width: cell - 4, height: tall - 4, rx: 4, fill: ramp(palette().warm, strength / largest), "stroke-width": 2.5, style: `cursor:pointer;stroke:${chosen ? "var(--ink)" : "none"}` });
      box.addEventListener("click", () => { stop(); state.head = h; go(l); });
      const label = draw(svg, "text", { x: left + (h + 0.5) * cell, y: top + (l - 0.5) * tall + 5, "text-anchor": "middle", "pointer-events": "none" }, times(Math.exp(strength)));
      if (strength > 0.6 * largest) label.style.fill = onStrong();
    }
  }
}

function watch(node, token) {
  node.addEventListener("mouseenter", () => { state.token = token; showParticles(); showAttention(); });
  node.addEventListener("mouseleave", () => { state.token = null; showParticles(); showAttention(); });
}

function show() {
  $("depth").value = current();
  $("where").textContent = current() === 0 ? "start" : `${depthName(current())} of ${depthName(D)}`;
  [...$("heads").children].forEach((button, h) => button.setAttribute("aria-pressed", h === state.head));
  showReadout(); showParticles(); showAttention(); showDrift();
}

function go(time) { state.time = time; show(); }

function stop() {
  if (state.timer !== null) cancelAnimationFrame(state.timer);
  state.timer = null;
  $("play").textContent = "▶ play";
}

function play() {
  if (state.timer !== null) return stop();
  const begin = state.time >= D ? 0 : state.time, started = performance.now();
  $("play").textContent = "❚❚ pause";
  const frame = (now) => {
    const time = Math.min(D, begin + Math.max(0, now - started) / 1100), before = current();
    state.time = time;
    if (current() === before && time < D) { showParticles(); showReadout(); } else show();
    if (time < D) state.timer = requestAnimationFrame(frame); else stop();
  };
  state.timer = requestAnimationFrame(frame);
}

data.tokens.forEach((token, i) => {
  const chip = document.createElement("span");
  chip.textContent = token;
  chip.style.borderColor = placeColour(i);
  $("tokens").appendChild(chip);
  watch(chip, i);
});
for (let h = 0; h < H; h++) {
  const button = document.createElement("button");
  button.textContent = h + 1;
  button.addEventListener("click", () => { state.head = h; show(); });
  $("heads").append(button, " ");
}
data.views.forEach(({ name }, v) => {
  const button = document.createElement("button");
  button.textContent = name;
  button.addEventListener("click", () => { state.view = v; showParticles(); });
  $("views").append(button, " ");
});
$("depth").max = D;
$("depth").addEventListener("input", () => { stop(); go(Number($("depth").value)); });
$("play").addEventListener("click", play);
function recolour() {
  [...$("tokens").children].forEach((chip, i) => { chip.style.borderColor = placeColour(i); });
  show();
}
darkMode.addEventListener("change", recolour);
addEventListener("resize", show);
show();
