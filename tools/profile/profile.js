'use strict';
(() => {
const data = JSON.parse(document.querySelector('[id^=xcvm-profile]').textContent);
const [PC, NAME, NODE, SHAPE, CALLS, NS, FLOPS, BYTES] = [0, 1, 2, 3, 4, 5, 6, 7];
const rows = new Map(data.rows.map(row => [row[PC], row]));
const total = data.rows.reduce((sum, row) => sum + row[NS], 0) || 1;
const runs = data.runs || 1;
const time = ns => ns >= 1e9 ? (ns / 1e9).toPrecision(4) + ' s' : ns >= 1e6 ? (ns / 1e6).toPrecision(4) + ' ms'
  : ns >= 1e3 ? (ns / 1e3).toPrecision(4) + ' \u00b5s' : ns.toFixed(0) + ' ns';
const size = n => n >= 1e9 ? (n / 1e9).toPrecision(4) + ' GB' : n >= 1e6 ? (n / 1e6).toPrecision(4) + ' MB'
  : n >= 1e3 ? (n / 1e3).toPrecision(4) + ' KB' : n + ' B';
const tell = row => `${row[PC]} ${row[NAME]} ${row[SHAPE]} ${row[NODE]}: ${time(row[NS] / runs)} a run, ` +
  `${(100 * row[NS] / total).toFixed(1)} %`;

// ---- Timeline ----

function hue(name) {
  let hash = 7;
  for (const c of name) hash = (hash * 31 + c.charCodeAt(0)) % 360;
  return hash;
}

function timeline() {
  const {steps, spans, ns} = data.run;
  if (!steps.length) return;
  const end = Math.max(ns, ...[steps[steps.length - 1]].map(s => s[1] + s[2]));
  const parallel = new Set(spans.map(span => span[0]));
  const bars = spans.map(([step, worker, start, length]) => [worker, start, length, steps[step][0]]);
  steps.forEach(([pc, start, length], i) => { if (!parallel.has(i)) bars.push([0, start, length, pc]); });
  const lanes = 1 + bars.reduce((most, bar) => Math.max(most, bar[0]), 0);
  const ROW = 28, LEFT = 70, FOOT = 22;
  const canvas = make('canvas', {role: 'img', 'aria-label': 'timeline of the threads'}), told = make('div', {class: 'told'});
  show('timeline', canvas, told);
  let from = 0, to = end;
  const place = ns => LEFT + (ns - from) / (to - from) * (canvas.clientWidth - LEFT);
  function draw() {
    const width = canvas.clientWidth, height = lanes * ROW + FOOT, scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = height + 'px';
    const g = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue('--ink'), soft = style.getPropertyValue('--soft');
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    g.scale(scale, scale);
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    for (const [lane, start, length, pc] of bars) {
      const x = Math.max(LEFT, place(start)), right = place(start + length);
      if (right < LEFT || x > width) continue;
      const name = rows.get(pc)[NAME];
      g.fillStyle = `hsl(${hue(name)} 55% ${dark ? 40 : 72}%)`;
      g.fillRect(x, lane * ROW + 3, Math.max(right - x, .6), ROW - 6);
      if (right - x > 40) {
        g.save();
        g.beginPath();
        g.rect(x, lane * ROW, right - x, ROW);
        g.clip();
        g.fillStyle = ink;
        g.fillText(name, x + 4, lane * ROW + ROW / 2);
        g.restore();
      }
    }
    g.fillStyle = soft;
    for (let lane = 0; lane < lanes; lane++) g.fillText(lane ? 'worker ' + lane : 'main', 4, lane * ROW + ROW / 2);
    for (const tick of ticks(from, to, Math.max(2, Math.floor(width / 130)))) g.fillText(short(time(tick)), place(tick) + 2, lanes * ROW + FOOT / 2);
  }
  const zoom = (factor, x) => {
    const at = from + (x - LEFT) / (canvas.clientWidth - LEFT) * (to - from);
    const length = Math.min(end, Math.max(end * 1e-5, (to - from) * factor));
    from = Math.min(Math.max(0, at - (at - from) * length / (to - from)), end - length);
    to = from + length;
    draw();
  };
  canvas.addEventListener('wheel', event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : .8, event.offsetX); }, {passive: false});
  canvas.addEventListener('dblclick', () => { [from, to] = [0, end]; draw(); });
  const held = new Map();
  canvas.addEventListener('pointerdown', event => { held.set(event.pointerId, event.offsetX); canvas.setPointerCapture(event.pointerId); });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, event => held.delete(event.pointerId));
  canvas.addEventListener('pointermove', event => {
    const before = held.get(event.pointerId);
    if (before !== undefined && held.size === 2) {
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
      const was = Math.abs(before - other) || 1, is = Math.abs(event.offsetX - other) || 1;
      held.set(event.pointerId, event.offsetX);
      return zoom(was / is, other);
    }
    if (before !== undefined) {
      const shift = (before - event.offsetX) / (canvas.clientWidth - LEFT) * (to - from);
      const moved = Math.min(Math.max(0, from + shift), end - (to - from));
      [from, to] = [moved, moved + to - from];
      held.set(event.pointerId, event.offsetX);
      return draw();
    }
    const lane = Math.floor(event.offsetY / ROW), at = from + (event.offsetX - LEFT) / (canvas.clientWidth - LEFT) * (to - from);
    const bar = bars.find(bar => bar[0] === lane && bar[1] <= at && at <= bar[1] + bar[2]);
    told.textContent = bar ? tell(rows.get(bar[3])) + `; here ${time(bar[2])}` : '';
  });
  draw();
  new ResizeObserver(draw).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  if (data.run.cut) told.textContent = `The first ${steps.length} instructions of the run.`;
}

// ---- Memory ----

function memory() {
  const steps = data.run.steps;
  if (!steps.length) return;
  const W = WIDE, H = 220, L = 70, B = 24, end = Math.max(data.run.ns, 1);
  const top = Math.max(data.arena, ...steps.map(step => step[3]), 1) * 1.08;
  const x = ns => L + ns / end * (W - L), y = bytes => H - B - bytes / top * (H - B - 8);
  const svg = make('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'bytes held by values over time'});
  for (const tick of ticks(0, top, 4))
    svg.append(make('path', {class: 'axis', d: `M${L} ${y(tick)}H${W}`}), make('text', {class: 'soft', x: 2, y: y(tick) + 4}, short(size(tick))));
  for (const tick of ticks(0, end, Math.max(2, W / 150))) svg.append(make('text', {class: 'soft', x: x(tick), y: H - 6}, short(time(tick))));
  let path = `M${L} ${y(0)}`;
  for (const [, start, length, bytes] of steps) path += `H${x(start + length).toFixed(1)}V${y(bytes).toFixed(1)}`;
  svg.append(make('path', {class: 'curve', d: path}));
  if (data.arena)
    svg.append(make('path', {class: 'plan', d: `M${L} ${y(data.arena)}H${W}`}), make('text', {x: L + 6, y: y(data.arena) - 5}, `planned arena: ${size(data.arena)}`));
  show('memory', svg);
}

// ---- Roofline ----

function roofline() {
  const dots = data.rows.filter(row => row[FLOPS] && row[BYTES] && row[NS]);
  if (!dots.length) return;
  const W = WIDE, H = 380, L = 60, B = 34;
  const xs = dots.map(row => row[FLOPS] / row[BYTES]), ys = dots.map(row => row[FLOPS] / row[NS]);
  // On a busy machine an instruction may be faster than the product was.
  const best = Math.max(...ys), roof = data.gflops && Math.max(data.gflops, best);
  const ridge = roof && data.gigabytes ? roof / data.gigabytes : 1;
  const span = (values, ...more) => { const all = [...values, ...more].map(Math.log10); return [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all) + .1)]; };
  const [x0, x1] = span(xs, ridge), [y0, y1] = span(ys, roof || 1);
  const x = v => L + (Math.log10(v) - x0) / (x1 - x0) * (W - L - 10), y = v => H - B - (Math.log10(v) - y0) / (y1 - y0) * (H - B - 10);
  const svg = make('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'roofline'});
  const label = power => power > 3 || power < -3 ? `1e${power}` : String(10 ** power).slice(0, 6);
  for (let p = x0; p <= x1; p++) svg.append(make('path', {class: 'axis', d: `M${x(10 ** p)} 10V${H - B}`}), make('text', {class: 'soft', x: x(10 ** p) - (p < x1 ? 6 : 16), y: H - B + 14}, label(p)));
  for (let p = y0; p <= y1; p++) svg.append(make('path', {class: 'axis', d: `M${L} ${y(10 ** p)}H${W - 10}`}), make('text', {class: 'soft', x: 18, y: y(10 ** p) + 4}, label(p)));
  svg.append(make('text', {class: 'soft', x: W / 2 - 70, y: H - 4}, 'operations per byte of memory'), make('text', {class: 'soft', x: L + 4, y: 22}, 'GFLOP/s'));
  if (roof && data.gigabytes) {
    const low = Math.max(10 ** x0, 10 ** y0 / data.gigabytes);
    svg.append(make('path', {class: 'roof', d: `M${x(low)} ${y(low * data.gigabytes)}L${x(ridge)} ${y(roof)}H${W - 10}`}),
      make('text', {x: W - 220, y: y(roof) - 6}, `${roof > data.gflops ? 'fastest instruction' : 'matrix product'}: ${roof.toPrecision(3)} GFLOP/s`),
      make('text', {x: x(Math.sqrt(low * ridge)) + 12, y: y(Math.sqrt(low * ridge) * data.gigabytes) + 4}, `memory: ${data.gigabytes.toPrecision(3)} GB/s`));
  }
  dots.sort((a, b) => b[NS] - a[NS]).forEach(row => {
    const dot = make('circle', {class: 'dot', cx: x(row[FLOPS] / row[BYTES]), cy: y(row[FLOPS] / row[NS]), r: 3 + 20 * Math.sqrt(row[NS] / total), tabindex: 0},
      make('title', {}, `${tell(row)}, ${(row[FLOPS] / row[NS]).toPrecision(3)} GFLOP/s, ${(row[FLOPS] / row[BYTES]).toPrecision(3)} operations per byte`));
    for (const kind of ['click', 'keydown']) dot.addEventListener(kind, event => { if (kind === 'click' || event.key === 'Enter') choose(row[PC]); });
    svg.append(dot);
  });
  show('roofline', svg);
}

// ---- Graph ----

function graph() {
  const used = new Set(data.run.edges.flat());
  const pcs = data.rows.map(row => row[PC]).filter(pc => used.has(pc) && rows.get(pc)[NAME] !== 'Free');
  const most = Math.max(...pcs.map(pc => rows.get(pc)[NS])) || 1;
  drawGraph(pcs, data.run.edges, pc => {
    const row = rows.get(pc);
    return {title: tell(row), heat: .06 + .8 * row[NS] / most, first: row[NAME], second: `${(100 * row[NS] / total).toFixed(1)} %  ${row[SHAPE]}`};
  });
}

// ---- Comparison ----

// Rows match by node and instruction, in order where several are alike, and else by node alone.
function compared() {
  const text = document.getElementById('earlier');
  if (!text) return;
  const earlier = JSON.parse(text.textContent), waiting = new Map();
  const push = (key, row) => waiting.has(key) ? waiting.get(key).push(row) : waiting.set(key, [row]);
  for (const row of earlier.rows) push(row[NAME] + '\0' + row[NODE], row);
  const per = (run, ns) => ns / (run.runs || 1), change = (was, is) => was ? 100 * (is - was) / was : NaN;
  const lines = data.rows.map(row => [row[NAME], row[NODE], (waiting.get(row[NAME] + '\0' + row[NODE]) || []).shift(), row]);
  for (const left of waiting.values()) for (const row of left) lines.push([row[NAME], row[NODE], row, undefined]);
  lines.sort((a, b) => { const gain = l => Math.abs((l[3] ? per(data, l[3][NS]) : 0) - (l[2] ? per(earlier, l[2][NS]) : 0)); return gain(b) - gain(a); });
  const cell = (number, shown, kind = '') => make('td', {'data-v': Number.isFinite(number) ? number : -1e300, class: kind}, shown);
  const percent = p => Number.isFinite(p) ? (p > 0 ? '+' : '') + p.toFixed(1) : '';
  const kind = p => p < -2 ? 'better' : p > 2 ? 'worse' : '';
  const whole = change(per(earlier, earlier.ns), per(data, data.ns));
  const table = make('table', {class: 'sortable'}, make('thead', {}, make('tr', {}, ...['instruction', 'node'].map(t => make('th', {class: 'text'}, t)),
    ...['before, \u00b5s', 'now, \u00b5s', 'difference, \u00b5s', '%'].map(t => make('th', {}, t)))), make('tbody', {}, ...lines.map(([name, node, was, is]) => {
    const a = was ? per(earlier, was[NS]) / 1e3 : 0, b = is ? per(data, is[NS]) / 1e3 : 0, p = change(a, b);
    return make('tr', {}, make('td', {class: 'text'}, name), make('td', {class: 'text'}, node), cell(was ? a : NaN, was ? a.toFixed(3) : 'new'),
      cell(is ? b : NaN, is ? b.toFixed(3) : 'gone'), cell(b - a, (b - a).toFixed(3)), cell(p, percent(p), kind(p)));
  })));
  show('compared', make('p', {}, `${earlier.program}, XCVM ${earlier.version}, ${earlier.threads} threads: ${time(per(earlier, earlier.ns))} a run; now ${time(per(data, data.ns))}, `,
    make('b', {class: kind(whole)}, percent(whole) + ' %'), '. Differences of a few percent are noise.'), make('div', {class: 'scroll'}, table));
}

compared();
for (const table of document.querySelectorAll('table.sortable')) sortable(table);
find();
for (const draw of [timeline, memory, roofline, graph]) draw();
document.documentElement.dataset.ready = 'yes';
})();
