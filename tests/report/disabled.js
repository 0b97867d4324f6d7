// Opens `report`, a page in base64, in a frame that runs no scripts, and writes down what a reader sees there.
const frame = document.querySelector('iframe');
frame.addEventListener('load', () => {
  const inner = frame.contentDocument, page = document.documentElement, note = inner.querySelector('noscript');
  page.dataset.ready = inner.documentElement.dataset.ready;
  page.dataset.rows = inner.querySelectorAll('#nodes tbody tr').length;
  page.dataset.note = note.innerText.trim();
  page.dataset.high = Math.round(inner.querySelector('#nodes').getBoundingClientRect().height);
});
frame.srcdoc = new TextDecoder().decode(Uint8Array.from(atob(report), c => c.charCodeAt(0)));
