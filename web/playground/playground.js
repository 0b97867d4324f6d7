/* The playground: loads a model or program, runs it, and shows its graph, profile and register contents. */
import { Program, Tensor, XcvmError } from '../js/index.js';

const $ = (id) => document.getElementById(id);
/* Most instructions of a drawn graph, and most elements that are shown of a value. */
const MOST_BOXES = 2000, MOST_ELEMENTS = 64;
const EXAMPLE = `xcvm 1
input x f32[Nx4]
output y f32[Nx3]
constant w f32[4x3] = 1 0 2 0 1 -1 1 1 0 -1 2 1
$1 = In(name="x")
$2 = MatMul($1, @w)
$3 = Relu($2)
$4 = Softmax($3, axis=-1)
Out($4, name="y")
`;

let program = null, session = null, events = [], current = 0;

function say(text, isError = false) {
    $('status').textContent = text;
    $('status').className = isError ? 'error' : '';
}

/* Runs an action of the user, and shows its failure. */
async function attempt(action) {
    try {
        await action();
    } catch (error) {
        say(error instanceof XcvmError ? `${error.status}: ${error.message}` : String(error), true);
    }
}

const shapeOf = (dims) => dims === null ? 'any' : dims.map((dim) => dim ?? '?').join(' × ') || 'scalar';

function fillRow(body, cells) {
    const row = body.insertRow();
    for (const cell of cells)
        row.insertCell().textContent = cell;
    return row;
}

async function loadBytes(bytes, name) {
    program?.dispose();
    program = null;
    $('loaded').hidden = true;
    say(`Loading ${name} ...`);
    const begin = performance.now();
    if (new TextDecoder().decode(bytes.subarray(0, 6)) === 'xcvm 1')
        program = await Program.assemble(new TextDecoder().decode(bytes));
    else
        program = await Program.load(bytes).catch((error) => {
            if (error.status !== 'INVALID_PROGRAM')
                throw error;
            say(`Compiling ${name} ...`);
            return Program.compile(bytes);
        });
    session = program.createSession();
    events = [];
    const { info } = program;
    $('info').textContent = `${info.instructions} instructions, ${info.constants} constants of ${(info.constantBytes / 1024).toFixed(0)} KB, ${info.producer}`;
    $('values').replaceChildren();
    for (const [what, infos] of [['input', program.inputs], ['output', program.outputs], ['state', program.states]])
        for (const { name: value, kind, dtype, dims } of infos)
            fillRow($('values'), [what, value, kind === 'tensor' ? dtype ?? 'any' : kind, kind === 'tensor' ? shapeOf(dims) : '']);
    $('results').textContent = '';
    $('loaded').hidden = false;
    show(0);
    say(`${name} is loaded (${(performance.now() - begin).toFixed(0)} ms).`);
}

/* The pixels of the chosen image, as floats from 0 to 1, in the layout and size that the input's shape suggests. */
async function imageTensor(dims) {
    const file = $('image').files[0];
    if (!file)
        throw new Error('Choose an image first.');
    const last = dims.length === 4 && dims[3] <= 4 && dims[1] > 4;
    const [channels, height, width] = last ? [dims[3], dims[1], dims[2]] : dims.slice(-3);
    if (dims.length < 3 || channels > 4)
        throw new Error(`An image is no input of shape ${shapeOf(dims)}.`);
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(await createImageBitmap(file), 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height), pixels = width * height;
    const values = new Float32Array(channels * pixels);
    for (let i = 0; i < pixels; i++)
        for (let c = 0; c < channels; c++) {
            const value = channels === 1 ? 0.299 * data[4 * i] + 0.587 * data[4 * i + 1] + 0.114 * data[4 * i + 2] : data[4 * i + c];
            values[last ? i * channels + c : c * pixels + i] = value / 255;
        }
    /* A batch is the image repeated. */
    const batch = new Float32Array(dims.reduce((a, b) => a * b, 1));
    for (let at = 0; at < batch.length; at += values.length)
        batch.set(values, at);
    return batch;
}

async function makeInputs() {
    const inputs = {}, size = Math.max(1, Number($('dynamic').value) || 1), source = $('source').value;
    for (const { name, kind, dtype, dims } of program.inputs) {
        if (kind !== 'tensor' || dtype === 'str')
            throw new Error(`The page cannot make the input ${name} of type ${kind === 'tensor' ? 'str' : kind}.`);
        const shape = (dims ?? []).map((dim) => typeof dim === 'number' ? dim : size);
        if (source === 'image' && dtype === 'f32' && shape.length >= 3) {
            inputs[name] = new Tensor('f32', await imageTensor(shape), shape);
            continue;
        }
        const { data } = session.input(name, shape);
        if (source !== 'zeros' && (dtype === 'f32' || dtype === 'f64'))
            data.forEach((_, i) => { data[i] = Math.random(); });
    }
    return inputs;
}

function textOf(value) {
    if (value === null)
        return 'null';
    if (value.items)
        return `${value.kind} of ${value.items.length}: ${value.items.slice(0, 4).map(textOf).join('; ')}`;
    const shown = [...value.data.slice(0, MOST_ELEMENTS)].map((x) => typeof x === 'number' ? Number(x.toPrecision(6)) : x);
    return `${value.dtype}[${value.dims.join('x')}] ${shown.join(' ')}${value.data.length > MOST_ELEMENTS ? ' ...' : ''}`;
}

async function run() {
    const inputs = await makeInputs();
    /* The first run also plans memory. */
    session.run(inputs);
    const begin = performance.now();
    const outputs = session.run();
    const milliseconds = performance.now() - begin;
    events = [];
    session.run({}, {
        observe: (event) => void (events.length < MOST_BOXES && events.push({
            ...event,
            inputs: event.inputs.map(({ register }) => register),
            outputs: event.outputs.map(({ register, name, value }) => ({ register, name, text: textOf(value) })),
        })),
    });
    $('results').textContent = Object.entries(outputs).map(([name, value]) => `${name} = ${textOf(value)}`).join('\n');
    const total = events.reduce((sum, event) => sum + event.milliseconds, 0) || 1;
    $('profile').replaceChildren();
    events.forEach((event, i) => {
        const row = fillRow($('profile'), [event.pc, event.instruction, event.node, event.milliseconds.toFixed(2), (100 * event.milliseconds / total).toFixed(0),
            (event.flops / 1e6).toFixed(2), (event.bytesWritten / 1024).toFixed(1)]);
        row.onclick = () => show(i);
    });
    drawGraph();
    show(0);
    say(`A run takes ${milliseconds.toFixed(2)} ms.`);
}

/* Shows an executed instruction: its results, and where it is in the table and the graph. */
function show(index) {
    current = Math.max(0, Math.min(index, events.length - 1));
    const event = events[current];
    $('position').textContent = event ? `${current + 1} of ${events.length}` : 'Run the program to step through it.';
    $('step').textContent = event ? [`${event.outputs.map(({ register }) => `$${register}`).join(', ')}${event.outputs.length ? ' = ' : ''}${event.instruction}(${event.inputs.map((register) => register > 0 ? `$${register}` : register < 0 ? `@#${-1 - register}` : '_').join(', ')})`,
        event.attributes, ...event.outputs.map(({ register, name, text }) => `$${register} ${name}: ${text}`)].filter(Boolean).join('\n') : '';
    for (const list of [$('profile').rows, $('graph').querySelectorAll('g')])
        [...list].forEach((element, i) => element.classList.toggle('chosen', i === current));
}

const NS = 'http://www.w3.org/2000/svg';
function element(parent, name, attributes, text) {
    const made = parent.appendChild(document.createElementNS(NS, name));
    for (const [key, value] of Object.entries(attributes))
        made.setAttribute(key, value);
    if (text !== undefined)
        made.textContent = text;
    return made;
}

/* Draws each executed instruction below those whose results it reads. */
function drawGraph() {
    const svg = $('graph'), width = 130, height = 46, writers = new Map(), places = [], used = [];
    svg.replaceChildren();
    events.forEach((event, i) => {
        const sources = event.inputs.filter((register) => register > 0 && writers.has(register)).map((register) => writers.get(register));
        const level = sources.reduce((most, source) => Math.max(most, places[source].level + 1), 0);
        used[level] = (used[level] ?? 0) + 1;
        places.push({ level, x: (used[level] - 1) * width + 5, y: level * height + 5, sources });
        event.outputs.forEach(({ register }) => writers.set(register, i));
    });
    svg.setAttribute('width', Math.max(1, ...used.map((n) => n ?? 0)) * width + 10);
    svg.setAttribute('height', used.length * height + 10);
    places.forEach(({ x, y, sources }) => sources.forEach((source) => element(svg, 'path', { d: `M${places[source].x + 60} ${places[source].y + 26}L${x + 60} ${y}` })));
    events.forEach(({ instruction }, i) => {
        const group = element(svg, 'g', {});
        element(group, 'rect', { x: places[i].x, y: places[i].y, width: 120, height: 26, rx: 4 });
        element(group, 'text', { x: places[i].x + 60, y: places[i].y + 17, 'text-anchor': 'middle' }, instruction);
        group.onclick = () => show(i);
    });
}

const loadFile = (file) => attempt(async () => loadBytes(new Uint8Array(await file.arrayBuffer()), file.name));
$('file').onchange = () => $('file').files[0] && loadFile($('file').files[0]);
$('example').onclick = () => attempt(() => loadBytes(new TextEncoder().encode(EXAMPLE), 'the example'));
$('source').onchange = () => { $('picture').hidden = $('source').value !== 'image'; };
$('run').onclick = () => attempt(run);
$('previous').onclick = () => show(current - 1);
$('next').onclick = () => show(current + 1);
$('drop').ondragover = (event) => { event.preventDefault(); $('drop').classList.add('over'); };
$('drop').ondragleave = () => $('drop').classList.remove('over');
$('drop').ondrop = (event) => {
    event.preventDefault();
    $('drop').classList.remove('over');
    if (event.dataTransfer.files[0])
        loadFile(event.dataTransfer.files[0]);
};
