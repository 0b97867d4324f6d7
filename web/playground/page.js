/* What all parts of the page share: elements, messages, rows, drawings and bars. */
import { XcvmError } from '../js/index.js';

export const $ = (id) => document.getElementById(id);

export function say(text, isError = false) {
    $('status').textContent = text;
    $('status').className = isError ? 'error' : '';
}

/* Runs an action of the user, and shows its failure. Returns a promise that does not fail. */
export async function attempt(action) {
    try {
        return await action();
    } catch (error) {
        say(error instanceof XcvmError ? `${error.status}: ${error.message}` : error.message || String(error), true);
        return undefined;
    }
}

/* Waits until the page has drawn and handled events. */
export const breathe = () => new Promise((resolve) => setTimeout(resolve));

export function fillRow(body, cells) {
    const row = body.insertRow();
    for (const cell of cells)
        row.insertCell().textContent = cell;
    return row;
}

const NS = 'http://www.w3.org/2000/svg';
export function svgElement(parent, name, attributes, text) {
    const made = parent.appendChild(document.createElementNS(NS, name));
    for (const [key, value] of Object.entries(attributes))
        made.setAttribute(key, value);
    if (text !== undefined)
        made.textContent = text;
    return made;
}

/* Saves bytes or text as a file of the user. */
export function save(name, content, type) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/* Lets the user draw white on a black canvas. Calls `changed` after each part of a stroke. Returns a function that erases. */
export function drawOn(canvas, changed) {
    const context = canvas.getContext('2d', { willReadFrequently: true });
    const erase = () => { context.fillStyle = '#000'; context.fillRect(0, 0, canvas.width, canvas.height); };
    let last = null;
    const point = ({ offsetX, offsetY }) => [offsetX * canvas.width / canvas.clientWidth, offsetY * canvas.height / canvas.clientHeight];
    canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); last = point(event); };
    canvas.onpointerup = canvas.onpointercancel = () => { last = null; };
    canvas.onpointermove = (event) => {
        if (last === null)
            return;
        const next = point(event);
        Object.assign(context, { strokeStyle: '#fff', lineWidth: canvas.width / 9, lineCap: 'round' });
        context.beginPath();
        context.moveTo(...last);
        context.lineTo(...next);
        context.stroke();
        last = next;
        changed();
    };
    erase();
    return () => { erase(); changed(); };
}

/* Shows scores as bars, the largest first. Logits become probabilities by a softmax; scores that are probabilities stay. */
export function showBars(parent, scores, names, most = 5) {
    let values = [...scores].map(Number);
    const sum = values.reduce((a, b) => a + b, 0);
    if (values.some((v) => v < 0) || Math.abs(sum - 1) > 0.01) {
        const largest = Math.max(...values), powers = values.map((v) => Math.exp(v - largest)), total = powers.reduce((a, b) => a + b, 0);
        values = powers.map((v) => v / total);
    }
    const order = values.map((_, i) => i).sort((a, b) => values[b] - values[a]).slice(0, most);
    parent.replaceChildren();
    for (const i of order) {
        const row = parent.appendChild(document.createElement('div')), meter = document.createElement('meter');
        row.className = 'bar';
        meter.value = values[i];
        for (const part of [names?.[i] ?? String(i), meter, `${(100 * values[i]).toFixed(1)} %`])
            row.append(part instanceof Node ? part : Object.assign(document.createElement('span'), { textContent: part }));
    }
}
