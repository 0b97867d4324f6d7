// What the pages of reports share: elements, tables and the graph.
'use strict';
const SVG = 'http://www.w3.org/2000/svg';
// Pictures have the width of the screen, so that their texts keep their size on a phone.
const WIDE = Math.min(900, Math.max(320, document.querySelector('main').clientWidth));

// Elements are made with text as text: names of a program are not markup.
function make(tag, attributes = {}, ...children) {
  const svg = make.svg.has(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.map(child => child instanceof Node ? child : String(child)));
  return element;
}
make.svg = new Set(['svg', 'g', 'rect', 'path', 'line', 'circle', 'text', 'title']);

function show(id, ...children) {
  const section = document.getElementById(id);
  section.hidden = false;
  section.querySelector('.body').append(...children);
  return section;
}

// Of a tick, without zeros behind the point.
const short = text => text.includes('.') ? text.replace(/\.?0+ /, ' ') : text;

function ticks(from, to, count) {
  const raw = (to - from) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= raw);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

// ---- Tables ----

function sortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = make('button', {type: 'button'}, cell.textContent);
    cell.replaceChildren(button);
    button.addEventListener('click', () => {
      const down = cell.getAttribute('aria-sort') !== 'descending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => row.cells[column].dataset.v === undefined ? row.cells[column].textContent : +row.cells[column].dataset.v;
      const sorted = [...body.rows].map(row => [key(row), row]);
      sorted.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
      body.append(...sorted.map(([, row]) => row));
    });
  });
}

function choose(pc) {
  const table = document.getElementById('nodes');
  for (const row of table.querySelectorAll('.chosen')) row.classList.remove('chosen');
  const row = table.querySelector(`tr[data-pc="${pc}"]`);
  if (!row) return;
  row.hidden = false;
  row.classList.add('chosen');
  row.scrollIntoView({block: 'center'});
}

function find() {
  const search = make('input', {type: 'search', placeholder: 'find a node, instruction or shape', 'aria-label': 'find'});
  search.addEventListener('input', () => {
    const wanted = search.value.toLowerCase();
    for (const row of document.getElementById('nodes').tBodies[0].rows)
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  document.getElementById('find').append(search);
}

// ---- Graph ----

// Layers by the longest way from an input; in a layer, order by the middle of the sources. `describe` returns the title, the
// color from 0 to 1, the class and the two lines of a box.
function drawGraph(pcs, edgesOfAll, describe) {
  if (!pcs.length || pcs.length > 3000) return;
  pcs.sort((a, b) => a - b);
  const kept = new Set(pcs), edges = edgesOfAll.filter(([a, b]) => kept.has(a) && kept.has(b));
  const sources = new Map(pcs.map(pc => [pc, []]));
  for (const [a, b] of edges) if (a < b) sources.get(b).push(a);
  const layer = new Map(), layers = [];
  for (const pc of pcs) {
    const at = sources.get(pc).reduce((most, source) => Math.max(most, layer.get(source) + 1), 0);
    layer.set(pc, at);
    (layers[at] ??= []).push(pc);
  }
  const BOX = 176, HIGH = 34, GAP = 16, DOWN = 26, column = new Map();
  const width = Math.max(...layers.map(l => l.length)) * (BOX + GAP);
  for (const members of layers) {
    const middle = pc => { const from = sources.get(pc); return from.length ? from.reduce((s, p) => s + column.get(p), 0) / from.length : width / 2; };
    members.map(pc => [middle(pc), pc]).sort((a, b) => a[0] - b[0]).forEach(([wanted, pc], i, all) => {
      const least = i ? column.get(all[i - 1][1]) + BOX + GAP : BOX / 2;
      column.set(pc, Math.min(Math.max(wanted, least), width - (all.length - 1 - i) * (BOX + GAP) - BOX / 2));
    });
  }
  const y = pc => layer.get(pc) * (HIGH + DOWN) + 4, height = layers.length * (HIGH + DOWN);
  const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': 'graph of the program'});
  for (const [a, b] of edges) {
    const [x1, y1, x2, y2] = [column.get(a), y(a) + HIGH, column.get(b), y(b)], bend = Math.abs(y2 - y1) / 2;
    svg.append(make('path', {class: 'edge', d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`}));
  }
  for (const pc of pcs) {
    const {title, heat, kind = '', first, second} = describe(pc), left = column.get(pc) - BOX / 2;
    const box = make('g', {tabindex: 0}, make('title', {}, title),
      make('rect', {class: `box ${kind}`, x: left, y: y(pc), width: BOX, height: HIGH, rx: 5, style: `fill: rgba(var(--hot), ${heat.toFixed(3)})`}),
      make('text', {x: left + 6, y: y(pc) + 14}, first.slice(0, 26)),
      make('text', {class: 'soft', x: left + 6, y: y(pc) + 27}, second.slice(0, 31)));
    for (const event of ['click', 'keydown']) box.addEventListener(event, e => { if (event === 'click' || e.key === 'Enter') choose(pc); });
    svg.append(box);
  }
  show('graph', svg);
}
