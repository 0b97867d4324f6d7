/* The executed instructions: profile, graph, and the registers after each of them. */
import { limits } from './inputs.js';
import { $, fillRow, save, svgElement } from './page.js';
import { elementsText, drawPlanes, planesOf, valueText } from './results.js';

/* Most instructions that are kept, and most bytes of their pictures. */
const MOST_EVENTS = 2000, MOST_BYTES = 64 << 20;

let events = [], current = 0;

/* Runs the session once and keeps each instruction with its results. */
export function record(session) {
    let bytes = 0;
    events = [];
    session.run({}, {
        ...limits(),
        observe(event) {
            if (events.length === MOST_EVENTS)
                return;
            const outputs = event.outputs.map((output) => {
                const { register, name } = output, { value } = output, planes = bytes < MOST_BYTES ? planesOf(value) : null;
                planes?.planes.forEach((plane) => { bytes += plane.byteLength; });
                return { register, name, planes, text: valueText(value), type: value?.dims ? `${value.dtype}[${value.dims.join('x')}]` : value?.kind ?? 'null',
                    first: value?.data ? elementsText(value, 6) : '' };
            });
            events.push({ ...event, inputs: event.inputs.map(({ register }) => register), outputs });
        },
    });
    $('steps').hidden = false;
    fillProfile();
    drawGraph();
    show(0);
}

export function forget() {
    events = [];
    $('steps').hidden = true;
}

function fillProfile() {
    const total = events.reduce((sum, { milliseconds }) => sum + milliseconds, 0) || 1;
    $('profile').replaceChildren();
    events.forEach((event, i) => {
        event.share = event.milliseconds / total;
        const row = fillRow($('profile'), [event.pc, event.instruction, event.node, event.milliseconds.toFixed(2), (100 * event.share).toFixed(0),
            (event.flops / 1e6).toFixed(2), (event.bytesWritten / 1024).toFixed(1)]);
        row.onclick = () => show(i);
    });
}

const operandText = (register) => register > 0 ? `$${register}` : register < 0 ? `@#${-1 - register}` : '_';

/* Shows an executed instruction, its results as text and pictures, the registers after it, and its place in table and graph. */
export function show(index) {
    current = Math.max(0, Math.min(index, events.length - 1));
    const event = events[current];
    $('position').textContent = `${current + 1} of ${events.length}`;
    const results = event.outputs.map(({ register }) => `$${register}`).join(', ');
    $('step').textContent = [`${results}${results ? ' = ' : ''}${event.instruction}(${event.inputs.map(operandText).join(', ')})`,
        event.attributes, ...event.outputs.map(({ register, name, text }) => `$${register} ${name}: ${text}`)].filter(Boolean).join('\n');
    $('pictures').replaceChildren();
    event.outputs.forEach(({ planes }) => planes && drawPlanes($('pictures'), planes));
    showRegisters();
    [...$('profile').rows].forEach((row, i) => row.classList.toggle('chosen', i === current));
    $('graph').querySelectorAll('g').forEach((group) => group.classList.toggle('chosen', Number(group.dataset.index) === current));
    $('profile').rows[current].scrollIntoView({ block: 'nearest' });
}

/* The registers that are set after the current instruction. */
function showRegisters() {
    const registers = new Map();
    for (const { instruction, inputs, outputs } of events.slice(0, current + 1)) {
        if (instruction === 'Free')
            inputs.forEach((register) => registers.delete(register));
        outputs.forEach((output) => registers.set(output.register, output));
    }
    $('registers').replaceChildren();
    for (const [register, { type, first }] of [...registers].sort(([a], [b]) => a - b))
        fillRow($('registers'), [`$${register}`, type, first]);
}

/* Draws each executed instruction below those whose results it reads. Free has no results and is left out. */
function drawGraph() {
    const svg = $('graph'), width = 130, height = 46, writers = new Map(), places = [], used = [];
    svg.replaceChildren();
    events.forEach((event, i) => {
        if (event.instruction === 'Free')
            return;
        const sources = event.inputs.filter((register) => register > 0 && writers.has(register)).map((register) => writers.get(register));
        const level = sources.reduce((most, source) => Math.max(most, places[source].level + 1), 0);
        used[level] = (used[level] ?? 0) + 1;
        places[i] = { level, x: (used[level] - 1) * width + 5, y: level * height + 5, sources };
        event.outputs.forEach(({ register }) => writers.set(register, i));
    });
    svg.setAttribute('width', Math.max(1, ...used.map((n) => n ?? 0)) * width + 10);
    svg.setAttribute('height', used.length * height + 10);
    places.forEach(({ x, y, sources }) => sources.forEach((source) =>
        svgElement(svg, 'path', { d: `M${places[source].x + 60} ${places[source].y + 26}L${x + 60} ${y}` })));
    places.forEach(({ x, y }, i) => {
        const { instruction, share, milliseconds } = events[i], group = svgElement(svg, 'g', { 'data-index': i });
        svgElement(group, 'title', {}, `${milliseconds.toFixed(2)} ms, ${(100 * share).toFixed(0)} %`);
        svgElement(group, 'rect', { x, y, width: 120, height: 26, rx: 4 });
        svgElement(group, 'rect', { x, y, width: 120, height: 26, rx: 4, 'fill-opacity': Math.sqrt(share).toFixed(2), class: 'time' });
        svgElement(group, 'text', { x: x + 60, y: y + 17, 'text-anchor': 'middle' }, instruction);
        group.onclick = () => show(i);
    });
}

/* The profile in the format of chrome://tracing and Perfetto: microseconds. */
export function traceText() {
    const begin = Math.min(...events.map(({ start }) => start));
    return JSON.stringify({ traceEvents: events.map(({ pc, instruction, node, start, milliseconds, flops, bytesRead, bytesWritten }) =>
        ({ name: instruction, cat: 'instruction', ph: 'X', pid: 1, tid: 1, ts: (start - begin) * 1000, dur: milliseconds * 1000, args: { pc, node, flops, bytesRead, bytesWritten } })) });
}

export function setUpSteps() {
    $('previous').onclick = () => show(current - 1);
    $('next').onclick = () => show(current + 1);
    $('trace').onclick = () => save('trace.json', traceText(), 'application/json');
}
