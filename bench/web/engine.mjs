/* Runs a model with one of the engines, in Node and in pages: xcvm with a compiled program, xcvm with ONNX, onnxruntime-web.
 * `urls` has the addresses of the package and of onnxruntime-web. */

/* Sizes of dynamic dimensions of known models, by input. */
const SIZES = {
    'silero_vad_v5.onnx': { input: [1, 512], state: [2, 1, 128], sr: [] },
    'silero_vad_v6.onnx': { input: [1, 512], state: [2, 1, 128], sr: [] },
    'silero_vad_legacy.onnx': { input: [1, 1536], h: [2, 1, 64], c: [2, 1, 64], sr: [] },
    'ch_PP-OCRv4_det_infer.onnx': { x: [1, 3, 320, 320] },
    'ch_PP-OCRv4_rec_infer.onnx': { x: [1, 3, 48, 320] },
    'ch_ppocr_mobile_v2.0_cls_infer.onnx': { x: [1, 3, 48, 192] },
};
/* Models of pixels from 0 to 255. M-LSD keeps local maxima, which differ for smaller numbers: those are noise to it. */
const PIXELS = ['mlsd_320x320_tiny.onnx'];
export const ENGINES = ['xcvm, program', 'xcvm, ONNX', 'onnxruntime-web'];

async function library(engine, urls) {
    if (engine !== 'onnxruntime-web')
        return import(urls.xcvm);
    const module = await import(urls.ort), ort = module.default ?? module;
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = 'error';
    return ort;
}

function feedsFor(ort, session, model) {
    let state = 1;
    const [scale, start] = PIXELS.includes(model) ? [255, 0] : [1, -0.5];
    const random = () => scale * (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648 + start;
    const feeds = {};
    for (const { name, type, shape } of session.inputMetadata) {
        const dims = SIZES[model]?.[name] ?? shape.map((dim) => typeof dim === 'number' && dim > 0 ? dim : 1);
        const count = dims.reduce((a, b) => a * b, 1);
        feeds[name] = type === 'int64' ? new ort.Tensor('int64', BigInt64Array.from({ length: count }, () => name === 'sr' ? 16000n : 1n), dims)
            : new ort.Tensor(type, Float32Array.from({ length: count }, random), dims);
    }
    return feeds;
}

/* Loads the engine and the model, and runs it once. Returns the milliseconds until then, the results, and functions that run and
 * release. */
export async function start(engine, urls, model, bytes) {
    const begin = performance.now(), ort = await library(engine, urls);
    const session = await ort.InferenceSession.create(bytes, { graphOptimizationLevel: 'all', logSeverityLevel: 3 });
    const feeds = feedsFor(ort, session, model), run = () => session.run(feeds), results = await run();
    return { first: performance.now() - begin, run, release: () => session.release(),
        results: session.outputNames.map((name) => results[name].data) };
}

/* The largest difference of two lists of results, relative to the largest result. */
export function difference(ours, theirs) {
    return Math.max(...theirs.map((b, k) => {
        /* Smaller results come of Sigmoid, which onnxruntime computes with an absolute error of 2e-7. */
        let most = 0, largest = 1e-3;
        for (let i = 0; i < b.length; i++) {
            most = Math.max(most, Math.abs(Number(ours[k][i]) - Number(b[i])));
            largest = Math.max(largest, Math.abs(Number(b[i])));
        }
        return ours[k].length === b.length ? most / largest : Infinity;
    }));
}

/* Alternating runs of xcvm, onnxruntime-web and xcvm with two threads. Returns the shortest time of each, the difference of
 * results, and whether results depend on threads. */
export async function compare(urls, model, bytes, milliseconds) {
    const ours = await start('xcvm, ONNX', urls, model, bytes), theirs = await start('onnxruntime-web', urls, model, bytes);
    const { env } = await import(urls.xcvm);
    env.wasm.numThreads = 2;
    const both = await start('xcvm, ONNX', urls, model, bytes), best = [Infinity, Infinity, Infinity];
    env.wasm.numThreads = 1;
    /* Clocks of pages have steps of 0.1 ms, so short runs are timed together. */
    const begin = performance.now();
    await ours.run();
    const together = Math.min(100, Math.ceil(5 / (performance.now() - begin + 0.05)));
    for (const end = performance.now() + milliseconds; performance.now() < end || best[2] === Infinity;)
        for (const [i, { run }] of [ours, theirs, both].entries()) {
            const begin = performance.now();
            for (let k = 0; k < together; k++)
                await run();
            best[i] = Math.min(best[i], (performance.now() - begin) / together);
        }
    await ours.release();
    await theirs.release();
    await both.release();
    return { best, difference: difference(ours.results, theirs.results), same: ours.results.every((a, k) => a.every((v, i) => Object.is(v, both.results[k][i]))) };
}
