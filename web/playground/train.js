/* Training of the digits example in the page. */
import { Program } from '../js/index.js';
import { $, attempt, breathe, drawOn, save, say, showBars, svgElement } from './page.js';
import { readNpz } from './npz.js';

const PIXELS = 64, CLASSES = 10;
let evaluation = null, trained = null, halted = false;

async function fetchBytes(name) {
    const response = await fetch(new URL(`digits/${name}`, import.meta.url));
    if (!response.ok)
        throw new Error(`digits/${name}: the server answers ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
}

/* Images from 0 to 1 and labels, split at random into examples for training and validation. */
async function readDigits() {
    const { images, labels } = await readNpz(await fetchBytes('digits.npz')), count = labels.data.length;
    const order = shuffled(Array.from({ length: count }, (_, i) => i)), kept = Math.floor(count / 5);
    const pick = (list) => ({
        count: list.length,
        images: Float32Array.from({ length: list.length * PIXELS }, (_, i) => images.data[list[Math.floor(i / PIXELS)] * PIXELS + i % PIXELS] / 16),
        labels: BigInt64Array.from(list, (i) => BigInt(labels.data[i])),
    });
    return { training: pick(order.slice(kept)), validation: pick(order.slice(0, kept)) };
}

function shuffled(list) {
    for (let i = list.length - 1; i > 0; i--) {
        const j = Math.floor(Math.random() * (i + 1));
        [list[i], list[j]] = [list[j], list[i]];
    }
    return list;
}

const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());

/* Weights of filters and matrices as He et al. (2015) draw them; other parameters keep the model's values. */
function initialize(session) {
    for (const { name, dims } of session.program.states) {
        if (name.startsWith('optimizer@') || dims.length < 2)
            continue;
        const inputs = dims.slice(1).reduce((a, b) => a * b, 1), deviation = Math.sqrt(2 / inputs);
        session.setState(name, Float32Array.from({ length: dims[0] * inputs }, () => deviation * normal()));
    }
}

/* Copies the weights of the training to the program for evaluation, which has the same states without the optimizer's. */
function copyWeights(from, to) {
    for (const { name } of to.program.states)
        to.setState(name, from.getState(name));
}

function score(session, { images, labels, count }) {
    const { scores, loss } = session.run({ image: { dtype: 'f32', dims: [count, 1, 8, 8], data: images }, labels: { dtype: 'i64', dims: [count], data: labels } });
    let right = 0;
    for (let i = 0; i < count; i++) {
        const row = scores.data.subarray(i * CLASSES, (i + 1) * CLASSES);
        right += row.indexOf(Math.max(...row)) === Number(labels[i]) ? 1 : 0;
    }
    return { accuracy: right / count, loss: loss.data[0] };
}

/* Draws the loss of each step, and the accuracy after each epoch from 0 to 1. */
function drawCurve(losses, accuracies, steps) {
    const svg = $('curve'), x = (step) => 30 + 300 * step / steps, most = Math.max(...losses, 1e-9), y = (part) => 150 - 130 * part;
    const line = (points, name) => svgElement(svg, 'path', { class: name, d: `M${points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join('L')}` });
    svg.replaceChildren();
    svgElement(svg, 'path', { d: 'M30 20V150H330V20' });
    line(losses.map((loss, i) => [i + 1, loss / most]), 'loss');
    line(accuracies, 'accuracy');
    svgElement(svg, 'text', { x: 30, y: 14, class: 'loss-text' }, `loss, up to ${most.toFixed(2)}`);
    svgElement(svg, 'text', { x: 330, y: 14, class: 'accuracy-text', 'text-anchor': 'end' }, 'validation accuracy, up to 100 %');
    svgElement(svg, 'text', { x: 180, y: 168, 'text-anchor': 'middle' }, `${losses.length} steps`);
    svg.removeAttribute('hidden');
}

const positive = (id, otherwise) => Number($(id).value) > 0 ? Number($(id).value) : otherwise;

async function train() {
    const rate = positive('rate', 0.003), epochs = Math.floor(positive('epochs', 12));
    $('progress').textContent = 'Compiling the training program ...';
    await breathe();
    const [model, { training, validation }] = await Promise.all([fetchBytes('untrained.onnx'), readDigits()]);
    const batch = Math.min(Math.floor(positive('batch', 64)), training.count), options = { train: 'adam', loss: 'softmax_cross_entropy' };
    const begin = performance.now();
    const program = await Program.compile(model, options), evaluator = await Program.compile(model, { ...options, evaluate: true });
    const compiled = performance.now() - begin;
    [trained, evaluation].forEach((old) => old?.program.dispose());
    trained = program.createSession();
    evaluation = evaluator.createSession();
    initialize(trained);
    const image = trained.input('image', [batch, 1, 8, 8]), labels = trained.input('labels', [batch]);
    const losses = [], accuracies = [[0, 0]], perEpoch = Math.floor(training.count / batch), order = Array.from({ length: training.count }, (_, i) => i);
    let busy = 0, drawn = performance.now();
    copyWeights(trained, evaluation);
    accuracies[0][1] = score(evaluation, validation).accuracy;
    for (let epoch = 0; epoch < epochs && !halted; epoch++) {
        shuffled(order);
        for (let step = 0; step < perEpoch && !halted; step++) {
            /* One cycle: the rate rises to its maximum in the first third, and falls to zero. */
            const part = losses.length / (epochs * perEpoch), factor = part < 0.3 ? part / 0.3 : (1 + Math.cos(Math.PI * (part - 0.3) / 0.7)) / 2;
            const started = performance.now();
            for (let i = 0; i < batch; i++) {
                const example = order[step * batch + i];
                image.data.set(training.images.subarray(example * PIXELS, (example + 1) * PIXELS), i * PIXELS);
                labels.data[i] = training.labels[example];
            }
            losses.push(trained.run({ learning_rate: rate * Math.max(factor, 0.01) }).loss.data[0]);
            busy += performance.now() - started;
            if (performance.now() - drawn > 50) {
                drawCurve(losses, accuracies, epochs * perEpoch);
                await breathe();
                drawn = performance.now();
            }
        }
        copyWeights(trained, evaluation);
        const { accuracy, loss } = score(evaluation, validation);
        accuracies.push([losses.length, accuracy]);
        drawCurve(losses, accuracies, epochs * perEpoch);
        $('progress').textContent = `Epoch ${epoch + 1} of ${epochs}: validation loss ${loss.toFixed(3)}, accuracy ${(100 * accuracy).toFixed(1)} %. ` +
            `${(busy / losses.length).toFixed(2)} ms a step, compiled in ${compiled.toFixed(0)} ms.`;
        await breathe();
    }
}

/* The drawing as the data set was made: cut to its bounds, then reduced to 8 x 8 means. */
function drawnDigit(canvas) {
    const { width, height } = canvas, { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
    let [left, right, top, bottom] = [width, -1, height, -1];
    for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++)
            if (data[4 * (y * width + x)] > 64)
                [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
    if (right < 0)
        return null;
    const small = new OffscreenCanvas(32, 32), context = small.getContext('2d', { willReadFrequently: true });
    const side = bottom - top + 1, across = Math.min(32, 32 * (right - left + 1) / side);
    context.fillRect(0, 0, 32, 32);
    context.drawImage(canvas, left, top, right - left + 1, side, (32 - across) / 2, 0, across, 32);
    const fine = context.getImageData(0, 0, 32, 32).data;
    return Float32Array.from({ length: PIXELS }, (_, i) => {
        let sum = 0;
        for (let k = 0; k < 16; k++)
            sum += fine[4 * ((Math.floor(i / 8) * 4 + Math.floor(k / 4)) * 32 + (i % 8) * 4 + k % 4)] / 255;
        return sum / 16;
    });
}

function answer() {
    const image = evaluation === null ? null : drawnDigit($('digit'));
    if (image === null)
        return $('answer').replaceChildren();
    const { scores } = evaluation.run({ image: { dtype: 'f32', dims: [1, 1, 8, 8], data: image }, labels: { dtype: 'i64', dims: [1], data: new BigInt64Array(1) } });
    return showBars($('answer'), scores.data, null, CLASSES);
}

export function setUpTraining() {
    const running = (on) => {
        $('train').disabled = on;
        $('halt').hidden = !on;
    };
    $('train').onclick = async () => {
        halted = false;
        running(true);
        say('');
        const done = await attempt(async () => { await train(); return true; });
        if (!done)
            $('progress').textContent = '';
        running(false);
        $('save').hidden = $('try').hidden = trained === null;
        answer();
    };
    $('halt').onclick = () => { halted = true; };
    $('save').onclick = () => attempt(() => save('digits.safetensors', trained.saveStates(), 'application/octet-stream'));
    $('clear').onclick = drawOn($('digit'), () => attempt(answer));
}
