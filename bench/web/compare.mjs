/* compare.mjs [--check] [MODEL...]: runs ONNX models with the npm package (through its module for onnxruntime-web) and with
 * onnxruntime-web in this Node, one thread each, runs alternating. Prints a table. --check runs each once and only compares
 * the results. A model is a file, or a directory with model.onnx. `make bench-web` fetches the packages. */
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url)), modules = path.join(root, 'build/node_modules');
const require = createRequire(path.join(modules, '/'));
const checkOnly = process.argv.includes('--check');
const models = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
/* Sizes of dynamic dimensions of known models, by input. */
const SIZES = {
    'silero_vad_v5.onnx': { input: [1, 512], state: [2, 1, 128], sr: [] },
    'silero_vad_v6.onnx': { input: [1, 512], state: [2, 1, 128], sr: [] },
    'silero_vad_legacy.onnx': { input: [1, 1536], h: [2, 1, 64], c: [2, 1, 64], sr: [] },
    'ch_PP-OCRv4_det_infer.onnx': { x: [1, 3, 320, 320] },
    'ch_PP-OCRv4_rec_infer.onnx': { x: [1, 3, 48, 320] },
    'ch_ppocr_mobile_v2.0_cls_infer.onnx': { x: [1, 3, 48, 192] },
};

async function peer() {
    const begin = performance.now();
    const ort = await import(pathToFileURL(require.resolve('onnxruntime-web')));
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = 'error';
    return { ort: ort.default ?? ort, load: performance.now() - begin };
}

function feedsFor(ort, session, sizes) {
    let state = 1;
    const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648 - 0.5;
    const feeds = {};
    for (const { name, type, shape } of session.inputMetadata) {
        const dims = sizes?.[name] ?? shape.map((dim) => typeof dim === 'number' && dim > 0 ? dim : 1);
        const count = dims.reduce((a, b) => a * b, 1);
        feeds[name] = type === 'int64' ? new ort.Tensor('int64', BigInt64Array.from({ length: count }, () => name === 'sr' ? 16000n : 1n), dims)
            : new ort.Tensor(type, Float32Array.from({ length: count }, random), dims);
    }
    return feeds;
}

function difference(a, b) {
    let most = 0, largest = 1e-6;
    for (let i = 0; i < b.length; i++) {
        most = Math.max(most, Math.abs(Number(a[i]) - Number(b[i])));
        largest = Math.max(largest, Math.abs(Number(b[i])));
    }
    return a.length === b.length ? most / largest : Infinity;
}

async function time(run) {
    const begin = performance.now();
    await run();
    return performance.now() - begin;
}

const ours = await import(pathToFileURL(path.join(root, 'build/web/package/js/onnxruntime-web.js')));
const { ort: theirs } = await peer();
let product = 1, count = 0, wrong = 0;
console.log('| model | xcvm, ms | onnxruntime-web, ms | ratio | create: xcvm, ms | create: onnxruntime-web, ms | difference |');
console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
for (const model of models) {
    const file = statSync(model).isDirectory() ? path.join(model, 'model.onnx') : model;
    const name = file === model ? path.basename(model) : path.basename(path.resolve(model)), bytes = new Uint8Array(readFileSync(file));
    let a, b;
    const loadA = await time(async () => { a = await ours.InferenceSession.create(bytes); });
    const loadB = await time(async () => { b = await theirs.InferenceSession.create(bytes, { graphOptimizationLevel: 'all' }); });
    const feedsA = feedsFor(ours, a, SIZES[name]);
    const feedsB = Object.fromEntries(Object.entries(feedsA).map(([input, { type, data, dims }]) => [input, new theirs.Tensor(type, data, dims)]));
    const resultA = await a.run(feedsA), resultB = await b.run(feedsB);
    const most = Math.max(...a.outputNames.map((output) => difference(resultA[output].data, resultB[output].data)));
    wrong += !(most < 1e-3);
    let bestA = Infinity, bestB = Infinity;
    for (const end = performance.now() + (checkOnly ? 0 : 4000); performance.now() < end || bestB === Infinity;) {
        bestA = Math.min(bestA, await time(() => a.run(feedsA)));
        bestB = Math.min(bestB, await time(() => b.run(feedsB)));
    }
    product *= bestB / bestA;
    count++;
    console.log(`| ${name} | ${bestA.toFixed(2)} | ${bestB.toFixed(2)} | ${(bestB / bestA).toFixed(2)} | ${loadA.toFixed(0)} | ${loadB.toFixed(0)} | ${most.toExponential(1)} |`);
    await a.release();
    await b.release();
}
console.log(`\n${count} models, geometric mean of the ratios ${(product ** (1 / count)).toFixed(2)}; ${wrong} differ by more than 1e-3`);
process.exitCode = wrong ? 1 : 0;
