'use strict';
(() => {
const data = JSON.parse(document.querySelector('[id^=xcvm-diff]').textContent);
const [PC, NAME, NODE, SHAPE, COMPARED, DIFFERENT, ABSOLUTE, RELATIVE] = [0, 1, 2, 3, 4, 5, 6, 7];
const rows = new Map(data.rows.map(row => [row[PC], row]));
const LEAST = -9, MOST = 1;
// Relative errors from 1e-9 to 10, as a number from 0 to 1. NaN, which is null in the data, is at the top.
const height = row => row[RELATIVE] === null ? 1 : (Math.min(MOST, Math.max(LEAST, Math.log10(row[RELATIVE] || 1e-99))) - LEAST) / (MOST - LEAST);
const error = (number, digits) => number === null ? 'nan' : number === 1e300 ? 'inf' : number.toPrecision(digits);
const tell = row => `${row[PC]} ${row[NAME]} ${row[SHAPE]} ${row[NODE]}: ` + (row[COMPARED]
  ? `absolute error ${error(row[ABSOLUTE], 3)}, relative ${error(row[RELATIVE], 3)}` + (row[DIFFERENT] ? ', beyond the tolerance' : '')
  : 'not compared');

function errors() {
  const dots = data.rows.filter(row => row[COMPARED]);
  if (!dots.length) return;
  const W = WIDE, H = 300, L = 52, B = 20;
  const x = i => L + 14 + (W - L - 28) * (dots.length > 1 ? i / (dots.length - 1) : .5), y = part => H - B - part * (H - B - 14);
  const svg = make('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'relative error of each instruction'});
  for (let power = LEAST; power <= MOST; power += 2) {
    const at = y((power - LEAST) / (MOST - LEAST));
    svg.append(make('path', {class: 'axis', d: `M${L} ${at}H${W}`}), make('text', {class: 'soft', x: 8, y: at + 4}, power < -2 ? `1e${power}` : 10 ** power));
  }
  dots.forEach((row, i) => {
    const dot = make('circle', {class: row[DIFFERENT] ? 'dot' : 'dot fine', cx: x(i).toFixed(1), cy: y(height(row)).toFixed(1), r: row[DIFFERENT] ? 6 : 4, tabindex: 0},
      make('title', {}, tell(row)));
    for (const kind of ['click', 'keydown']) dot.addEventListener(kind, event => { if (kind === 'click' || event.key === 'Enter') choose(row[PC]); });
    svg.append(dot);
  });
  show('errors', svg);
}

function graph() {
  const used = new Set(data.edges.flat());
  drawGraph(data.rows.map(row => row[PC]).filter(pc => used.has(pc) && rows.get(pc)[NAME] !== 'Free'), data.edges, pc => {
    const row = rows.get(pc), kind = row[DIFFERENT] ? 'beyond' : row[COMPARED] ? '' : 'unknown';
    return {title: tell(row), heat: row[COMPARED] ? .05 + .8 * height(row) : 0, kind, first: row[NAME],
      second: `${row[COMPARED] ? error(row[RELATIVE], 2) : '-'}  ${row[SHAPE]}`};
  });
}

for (const table of document.querySelectorAll('table.sortable')) sortable(table);
find();
errors();
graph();
document.documentElement.dataset.ready = 'yes';
})();
