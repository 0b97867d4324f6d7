// Appended to a report: writes down in the document what a reader would see.
(() => {
const page = document.documentElement, tell = (key, value) => { page.dataset[key] = value; };
const shown = id => { const section = document.getElementById(id); return !section.hidden && section.getBoundingClientRect().height > 20; };
tell('shown', [...document.querySelectorAll('section[id]')].map(section => section.id).filter(shown).join(' '));
tell('wide', page.scrollWidth - innerWidth);
tell('boxes', document.querySelectorAll('#graph rect').length);
tell('edges', document.querySelectorAll('#graph .edge').length);
tell('dots', document.querySelectorAll('#roofline .dot, #errors .dot').length);
tell('rows', document.querySelectorAll('#nodes tbody tr').length);
tell('back', getComputedStyle(document.body).backgroundColor);
const canvas = document.querySelector('#timeline canvas');
if (canvas) {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, colors = new Set();
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3]) colors.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  tell('colors', colors.size);
}
// Sorting by share or error: from the largest to the smallest, and back.
const body = document.querySelector('#nodes').tBodies[0], button = [...document.querySelectorAll('#nodes th button')].find(b => /^share|^largest absolute/.test(b.textContent));
const column = button.parentNode.cellIndex;
const shares = () => [...body.rows].map(row => +row.cells[column].dataset.v), sorted = list => list.every((v, i) => !i || list[i - 1] >= v);
button.click();
tell('down', sorted(shares()));
button.click();
tell('up', sorted(shares().reverse()));
// Selecting a box of the graph selects its row.
const box = document.querySelector('#graph g');
box.dispatchEvent(new MouseEvent('click'));
tell('chosen', document.querySelectorAll('#nodes .chosen').length === 1 && box.textContent.startsWith(document.querySelector('#nodes .chosen').dataset.pc + ' '));
// Searching leaves the rows that contain the text.
const search = document.querySelector('input[type=search]');
search.value = [...body.rows][0].cells[1].textContent;
search.dispatchEvent(new Event('input'));
const left = [...body.rows].filter(row => !row.hidden);
tell('found', left.length > 0 && left.every(row => row.textContent.includes(search.value)));
})();
