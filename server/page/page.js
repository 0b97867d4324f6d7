'use strict';
// The page of `xcvm serve`. It reads the API of the server like any other client, and creates text nodes only: names of models and
// inputs may contain anything.

const $ = (id) => document.getElementById(id);
const KEY = 'xcvm-api-key', MOST_FIELDS = 64, MOST_COLUMNS = 12, MOST_ELEMENTS = 1 << 24, MOST_ROWS = 10, REFRESH_MS = 2000;

function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
}

// ---- Requests ----

class Unauthorized extends Error {}

async function request(path, options = {}) {
    const key = sessionStorage.getItem(KEY), headers = { ...options.headers };
    if (key) headers.Authorization = `Bearer ${key}`;
    const response = await fetch(path, { ...options, headers, cache: 'no-store' });
    if (response.status === 401) throw new Unauthorized('The API key is missing or wrong.');
    if (!response.ok) {
        const text = await response.text();
        let message = text;
        try { message = JSON.parse(text).error ?? text; } catch { /* not JSON */ }
        throw new Error(message || `HTTP ${response.status}`);
    }
    return response;
}
const json = async (path, options) => (await request(path, options)).json();
const modelPath = (model) => `v2/models/${encodeURIComponent(model.name)}/versions/${encodeURIComponent(model.version)}`;

// ---- Numbers ----

function timeText(ns) {
    const units = [['s', 1e9], ['ms', 1e6], ['\u00b5s', 1e3]];
    const [unit, size] = units.find(([, least]) => ns >= least) ?? units[2];
    return `${+(ns / size).toPrecision(3)} ${unit}`;
}
function bytesText(bytes) {
    const units = [['GB', 2 ** 30], ['MB', 2 ** 20], ['KB', 2 ** 10]];
    const found = units.find(([, least]) => bytes >= least);
    return found ? `${(bytes / found[1]).toPrecision(3)} ${found[0]}` : `${bytes} B`;
}
const numberText = (value) => typeof value === 'number' ? String(+value.toPrecision(6)) : String(value);
const product = (dims) => dims.reduce((a, b) => a * b, 1);

// ---- Inputs ----

const IS_FLOAT = /^(FP|BF)/;

// Numbers that look like data: between 0 and 1, or small integers.
function randomOf(datatype) {
    if (datatype === 'BOOL') return Math.random() < 0.5;
    if (datatype === 'BYTES') return Math.random().toString(36).slice(2, 8);
    return IS_FLOAT.test(datatype) ? Math.round(Math.random() * 1e4) / 1e4 : Math.floor(Math.random() * 10);
}
const zeroOf = (datatype) => datatype === 'BOOL' ? false : datatype === 'BYTES' ? '' : 0;

function valueOf(text, datatype) {
    if (datatype === 'BYTES') return text;
    const trimmed = text.trim();
    if (datatype === 'BOOL') return trimmed === 'true' || trimmed === '1';
    const value = Number(trimmed);
    if (trimmed === '' || Number.isNaN(value)) throw new Error(`"${text}" is not a number`);
    return value;
}

// The layout of an image: channels, height and width by their places, or null.
function imageLayout(dims) {
    const n = dims.length, channels = (size) => size === 1 || size === 3 || size === 4;
    if (n < 2 || product(dims.slice(0, Math.max(0, n - 3))) !== 1) return null;
    if (n === 2) return { channels: 1, height: dims[0], width: dims[1], last: true };
    const [a, b, c] = dims.slice(-3);
    if (channels(a) && b > 1 && c > 1) return { channels: a, height: b, width: c, last: false };
    if (channels(c) && a > 1 && b > 1) return { channels: c, height: a, width: b, last: true };
    return null;
}

const SCALES = {
    '0 to 1': (v) => v / 255,
    '0 to 255': (v) => v,
    '-1 to 1': (v) => v / 127.5 - 1,
    'ImageNet': (v, c) => (v / 255 - [0.485, 0.456, 0.406][c % 3]) / [0.229, 0.224, 0.225][c % 3],
    'inverted, 0 to 1': (v) => 1 - v / 255,
};

// Decodes a file, scales it to the size of the tensor, and returns its elements.
async function imageElements(file, layout, scale, datatype, canvas) {
    const bitmap = await createImageBitmap(file), { channels, height, width, last } = layout;
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height).data, count = width * height;
    const data = new Array(count * channels), to = SCALES[scale], whole = !IS_FLOAT.test(datatype);
    for (let i = 0; i < count; i++) {
        const p = 4 * i, gray = 0.299 * pixels[p] + 0.587 * pixels[p + 1] + 0.114 * pixels[p + 2];
        for (let c = 0; c < channels; c++) {
            const v = to(channels === 1 ? gray : pixels[p + c], c);
            data[last ? i * channels + c : c * count + i] = whole ? Math.round(v) : +v.toFixed(6);
        }
    }
    canvas.hidden = false;
    return data;
}

// The fields of an input. `read` returns the tensor of a request.
class InputForm {
    constructor(info) {
        this.info = info;
        this.sizes = info.shape.map((size) => size < 0
            ? element('input', { type: 'number', min: 0, value: 1, ariaLabel: 'size of an open dimension' }) : size);
        this.shape = element('span', { className: 'shape' }, '[');
        this.sizes.forEach((size, i) => this.shape.append(i ? ', ' : '', size instanceof Node ? size : String(size)));
        this.shape.append(']');
        this.fields = element('div');
        this.imageTools = element('span', { className: 'tools' });
        this.root = element('fieldset', {}, element('legend', {}, info.name), element('div', {}, `${info.datatype} `, this.shape),
            this.tools(), this.fields);
        for (const size of this.sizes)
            if (size instanceof Node) size.addEventListener('change', () => this.build());
        this.build();
    }
    dims() {
        return this.sizes.map((size) => size instanceof Node ? Math.max(0, Math.floor(Number(size.value) || 0)) : size);
    }
    tools() {
        const button = (text, make) => {
            const made = element('button', { type: 'button', className: text }, text);
            made.addEventListener('click', () => {
                told.textContent = '';
                try {
                    this.set(Array.from({ length: this.count() }, () => make(this.info.datatype)));
                } catch (error) {
                    told.textContent = error.message;
                }
            });
            return made;
        };
        const file = element('input', { type: 'file', accept: 'image/*', className: 'image', ariaLabel: 'image' });
        const scale = element('select', { className: 'scale', ariaLabel: 'range of pixels' }, ...Object.keys(SCALES).map((name) => element('option', {}, name)));
        if (!IS_FLOAT.test(this.info.datatype)) scale.value = '0 to 255';
        const canvas = element('canvas', { hidden: true }), told = element('span', { className: 'bad' });
        const decode = async () => {
            told.textContent = '';
            if (!file.files.length) return;
            try {
                this.set(await imageElements(file.files[0], imageLayout(this.dims()), scale.value, this.info.datatype, canvas));
            } catch (error) {
                told.textContent = `The image cannot be used: ${error.message}`;
            }
            this.root.dataset.image = file.files[0].name;
        };
        file.addEventListener('change', decode);
        scale.addEventListener('change', decode);
        this.imageTools.append('image ', file, ' pixels ', scale, canvas);
        return element('div', { className: 'tools' }, button('random', randomOf), button('zeros', zeroOf), this.imageTools, told);
    }
    count() {
        const count = product(this.dims());
        if (count > MOST_ELEMENTS) throw new Error(`input "${this.info.name}" has ${count} elements; the page sends at most ${MOST_ELEMENTS}`);
        return count;
    }
    build() {
        const count = Math.min(product(this.dims()), MOST_FIELDS + 1);
        this.data = null;
        this.single = count <= MOST_FIELDS;
        this.imageTools.hidden = imageLayout(this.dims()) === null || this.info.datatype === 'BYTES';
        if (this.single) {
            const text = this.info.datatype === 'BYTES';
            this.cells = Array.from({ length: count }, (_, i) => element('input', { value: text ? '' : '0',
                inputMode: text ? 'text' : 'decimal', ariaLabel: `element ${i}` }));
            const grid = element('div', { className: 'numbers' }, ...this.cells), row = this.dims().at(-1) ?? 1;
            if (row > 1 && row <= MOST_COLUMNS) grid.style.gridTemplateColumns = `repeat(${row}, minmax(0, 1fr))`;
            this.fields.replaceChildren(grid);
        } else {
            this.area = element('textarea', { spellcheck: false, ariaLabel: 'elements as JSON', placeholder: 'JSON: [1, 2, ...]; empty: zeros' });
            this.area.addEventListener('input', () => { this.data = null; });
            this.fields.replaceChildren(this.area);
        }
    }
    set(data) {
        if (this.single) {
            this.cells.forEach((cell, i) => { cell.value = String(data[i]); });
        } else {
            const text = JSON.stringify(data);
            this.data = data;
            this.area.value = text.length < 20000 ? text : `${text.slice(0, 200)} ... (${data.length} elements)`;
        }
    }
    read() {
        const { name, datatype } = this.info, shape = this.dims();
        let data = this.data;
        if (this.single) data = this.cells.map((cell) => valueOf(cell.value, datatype));
        else if (data === null) data = this.area.value.trim() === '' ? new Array(this.count()).fill(zeroOf(datatype)) : JSON.parse(this.area.value);
        return { name, shape, datatype, data };
    }
}

// ---- Results ----

function bar(share) {
    const made = element('i');
    made.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    return made;
}

// The greatest elements of a row with the names of their classes, or the elements in their order.
function outputTable(output, classes) {
    const { name, datatype, shape, data } = output, row = shape.length ? shape[shape.length - 1] : 1;
    const named = classes && classes.length === row && row > 1, numbers = data.every((v) => typeof v === 'number');
    const rows = element('tbody'), most = numbers ? Math.max(...data.slice(0, 10000).map(Math.abs), 1e-30) : 0;
    const add = (label, value) => rows.append(element('tr', {}, element('td', {}, label), element('td', {}, numberText(value)),
        element('td', { className: 'share' }, typeof value === 'number' ? bar(Math.abs(value) / most) : '')));
    if (named) {
        for (let at = 0; at < data.length && at < 8 * row; at += row)
            data.slice(at, at + row).map((value, i) => [value, i]).sort((a, b) => b[0] - a[0]).slice(0, MOST_ROWS)
                .forEach(([value, i]) => add(data.length > row ? `${at / row}: ${classes[i]}` : classes[i], value));
    } else {
        data.slice(0, 100).forEach((value, i) => add(String(i), value));
    }
    const caption = element('caption', {}, `${name} `, element('small', {}, `${datatype} [${shape.join(', ')}]`));
    const table = element('table', {}, caption, element('thead', {}, element('tr', {}, element('th', {}, named ? 'class' : 'element'),
        element('th', {}, 'value'), element('th', {}, ''))), rows);
    return element('div', { className: 'scroll' }, table);
}

// A trace context with the sampled flag, so that the last traces contain the request.
function traceParent() {
    const hex = (count) => Array.from(crypto.getRandomValues(new Uint8Array(count)), (byte) => byte.toString(16).padStart(2, '0')).join('');
    return `00-${hex(16)}-${hex(8)}-01`;
}

// ---- Models ----

class ModelView {
    constructor(model) {
        this.model = model;
        this.root = $('model').content.firstElementChild.cloneNode(true);
        this.part = (name) => this.root.querySelector(`.${name}`);
        this.part('name').textContent = model.name;
        this.part('version').textContent = model.version;
        this.part('try').addEventListener('toggle', () => this.open());
        this.part('try').querySelector('form').addEventListener('submit', (event) => {
            event.preventDefault();
            this.run();
        });
    }
    show(model, statistics) {
        const ready = model.state === 'READY', state = this.part('state'), s = statistics;
        if (this.model.state !== model.state) this.opened = false;
        this.model = model;
        state.textContent = ready ? 'ready' : 'not ready';
        state.classList.toggle('bad', !ready);
        this.part('reason').textContent = model.reason ?? '';
        if (!s) return;
        const done = s.inference_stats.success, fail = s.inference_stats.fail.count;
        const cards = [['requests', done.count], ['failed', fail], ['refused', s.refused_count], ['mean', done.count ? timeText(done.ns / done.count) : '-'],
            ['in the queue', done.count ? timeText(s.inference_stats.queue.ns / done.count) : '-'], ['waiting', s.waiting], ['running', s.running],
            ['memory', bytesText(s.memory_bytes)]];
        this.part('cards').replaceChildren(...cards.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, String(value)))));
        this.showHistogram(s.latency);
    }
    showHistogram({ bounds_ns: bounds, counts }) {
        const first = counts.findIndex((count) => count > 0), box = this.part('histogram');
        const total = counts.reduce((a, b) => a + b, 0), most = Math.max(...counts);
        box.ariaLabel = `histogram of ${total} requests`;
        if (first < 0) {
            box.textContent = 'There was no request.';
            return;
        }
        const last = counts.length - 1 - [...counts].reverse().findIndex((count) => count > 0);
        const bars = [];
        for (let i = Math.max(0, first - 1); i <= Math.min(counts.length - 1, last + 1); i++) {
            const label = i < bounds.length ? `\u2264 ${timeText(bounds[i])}` : 'longer', fill = element('i');
            fill.style.height = `${counts[i] / most * 100}%`;
            const column = element('div', { className: 'bar', title: `${label}: ${counts[i]}` }, String(counts[i] || ''), fill, element('b', {}, label));
            column.dataset.count = counts[i];
            bars.push(column);
        }
        box.replaceChildren(...bars);
    }
    async open() {
        if (this.opened || !this.part('try').open) return;
        this.opened = true;
        try {
            const { inputs, parameters } = await json(modelPath(this.model));
            this.classes = parameters?.class_names?.split('\n');
            this.classOutput = parameters?.class_output;
            this.forms = inputs.map((info) => new InputForm(info));
            this.part('inputs').replaceChildren(...this.forms.map((form) => form.root));
        } catch (error) {
            this.opened = false;
            this.tell(error.message, true);
        }
    }
    tell(text, bad = false) {
        this.part('told').textContent = text;
        this.part('told').classList.toggle('bad', bad);
    }
    async run() {
        this.tell('');
        this.part('run').disabled = true;
        try {
            const body = JSON.stringify({ inputs: this.forms.map((form) => form.read()) }), begin = performance.now();
            const response = await request(`${modelPath(this.model)}/infer`, { method: 'POST', body,
                headers: { 'Content-Type': 'application/json', traceparent: traceParent() } });
            const { outputs } = await response.json();
            this.tell(`${timeText((performance.now() - begin) * 1e6)} in the browser`);
            this.part('outputs').replaceChildren(...outputs.map((output) => outputTable(output,
                !this.classOutput || this.classOutput === output.name ? this.classes : undefined)));
            refresh();
        } catch (error) {
            if (error instanceof Unauthorized) askForKey(error);
            this.tell(error.message, true);
        }
        this.part('run').disabled = false;
    }
}

// ---- The page ----

const views = new Map();

function askForKey(error) {
    $('key').hidden = false;
    $('models').hidden = true;
    $('problem').textContent = sessionStorage.getItem(KEY) ? error.message : '';
}

async function refresh() {
    try {
        const [server, index, { model_stats: statistics }] = await Promise.all([json('v2'),
            json('v2/repository/index', { method: 'POST', body: '{}' }), json('v2/models/stats')]);
        const ready = await fetch('v2/health/ready', { cache: 'no-store' }).then((response) => response.ok);
        $('server').textContent = `${server.name} ${server.version}`;
        $('ready').textContent = ready ? 'ready' : 'not ready';
        $('ready').classList.toggle('bad', !ready);
        $('key').hidden = true;
        $('models').hidden = false;
        $('problem').textContent = '';
        for (const model of index) {
            const id = JSON.stringify([model.name, model.version]);
            if (!views.has(id)) {
                views.set(id, new ModelView(model));
                $('models').append(views.get(id).root);
            }
            views.get(id).show(model, statistics.find((s) => s.name === model.name && s.version === model.version));
        }
        document.documentElement.dataset.shown = index.length;
    } catch (error) {
        if (error instanceof Unauthorized) askForKey(error);
        else $('problem').textContent = `The server cannot be reached: ${error.message}`;
    }
}

$('key').addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, $('secret').value);
    $('secret').value = '';
    refresh();
});

// Links cannot send a key, so the page loads these paths and saves them as files.
for (const [id, name] of [['traces', 'xcvm-trace.json'], ['metrics', 'metrics.txt']])
    $(id).addEventListener('click', async (event) => {
        if (id === 'metrics' && !sessionStorage.getItem(KEY)) return;
        event.preventDefault();
        try {
            const url = URL.createObjectURL(await (await request($(id).getAttribute('href'))).blob());
            element('a', { href: url, download: name }).click();
            setTimeout(() => URL.revokeObjectURL(url), 10000);
        } catch (error) {
            if (error instanceof Unauthorized) askForKey(error);
            else $('problem').textContent = error.message;
        }
    });

refresh();
setInterval(() => { if (!document.hidden && $('key').hidden) refresh(); }, REFRESH_MS);
