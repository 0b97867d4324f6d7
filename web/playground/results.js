/* Values as text, as bars of classes and as pictures. */
import { $, showBars } from './page.js';

/* Most elements that are shown of a value, and most elements and planes of a picture. */
const MOST_ELEMENTS = 64, MOST_PIXELS = 1 << 18, MOST_PLANES = 12;

export function valueText(value, most = MOST_ELEMENTS) {
    if (value === null)
        return 'null';
    if (value.items)
        return `${value.kind} of ${value.items.length}: ${value.items.slice(0, 4).map((item) => valueText(item, 8)).join('; ')}`;
    return `${value.dtype}[${value.dims.join('x')}] ${elementsText(value, most)}`;
}

export function elementsText({ data }, most) {
    const shown = [...data.slice(0, most)].map((x) => typeof x === 'number' ? Number(x.toPrecision(6)) : x);
    return `${shown.join(' ')}${data.length > most ? ' ...' : ''}`;
}

/* Gray planes of a tensor: copies of the first ones, or null if it is none of two or more axes. Five axes of which the last
 * one is 16 are images in blocks of 16 channels. */
export function planesOf(value) {
    if (value === null || value.items || value.dims.length < 2 || typeof value.data[0] !== 'number')
        return null;
    const { data, dims } = value, step = dims.length === 5 && dims[4] === 16 ? 16 : 1;
    const [height, width] = step === 16 ? dims.slice(2, 4) : dims.slice(-2), pixels = height * width, planes = [];
    if (height < 2 || width < 2 || pixels > MOST_PIXELS)
        return null;
    for (let plane = 0; plane < MOST_PLANES && (plane + 1) * pixels <= data.length; plane++) {
        const begin = Math.floor(plane / step) * pixels * step + plane % step;
        planes.push(Float32Array.from({ length: pixels }, (_, i) => data[begin + i * step]));
    }
    return { width, height, planes };
}

/* Draws planes; black is the least and white the greatest element of all. */
export function drawPlanes(parent, { width, height, planes }) {
    let least = Infinity, most = -Infinity;
    for (const plane of planes)
        for (const v of plane) {
            least = v < least ? v : least;
            most = v > most ? v : most;
        }
    for (const plane of planes) {
        const canvas = parent.appendChild(Object.assign(document.createElement('canvas'), { width, height }));
        const image = new ImageData(width, height);
        plane.forEach((v, i) => image.data.set([0, 0, 0, 255].fill(most > least ? 255 * (v - least) / (most - least) : 0, 0, 3), 4 * i));
        canvas.getContext('2d').putImageData(image, 0, 0);
    }
}

/* Shows the outputs of a run. Scores of classes, those of the first example, become bars with the names of the model's
 * metadata. */
export function showOutputs(program, outputs) {
    const names = program.metadata('class_names')?.split('\n'), scored = program.metadata('class_output');
    $('results').replaceChildren();
    for (const [name, value] of Object.entries(outputs)) {
        const count = value?.dims?.at(-1) ?? 0;
        const isScores = value?.dims && (name === scored || (value.dims.length <= 2 && value.dtype === 'f32' && count > 1 && count <= 20000));
        const heading = $('results').appendChild(document.createElement('h3'));
        heading.textContent = value?.dims ? `${name}: ${value.dtype}[${value.dims.join('x')}]` : name;
        if (isScores)
            showBars($('results').appendChild(document.createElement('div')), value.data.slice(0, count), names);
        const text = $('results').appendChild(document.createElement('pre'));
        text.textContent = `${name} = ${valueText(value)}`;
    }
}
