/* @imgly/background-removal with one import changed: it makes the same mask with the drop-in module as with onnxruntime-web. The
 * model is a small one. With XCVM_BACKGROUND_DATA, a directory of the package @imgly/background-removal-data, it is the package's
 * own (tests/web/background.sh). */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { load, packageDir, read, root } from './support.mjs';

const modules = path.join(root, 'build/node_modules'), require = createRequire(path.join(modules, '/'));
const data = process.env.XCVM_BACKGROUND_DATA, folder = mkdtempSync(path.join(tmpdir(), 'xcvm-background-'));
/* The package asks for the number of processors, and Node 20 has no navigator. */
globalThis.navigator ??= { hardwareConcurrency: 1 };
let server, publicPath;

function ownModel() {
    const { chunks } = JSON.parse(readFileSync(path.join(data, 'dist/resources.json'), 'utf8'))['/models/small'];
    return Buffer.concat(chunks.map(({ hash }) => readFileSync(path.join(data, 'dist', hash))));
}

before(async () => {
    const model = data ? ownModel() : read('tests/web/data/matte.onnx'), bytes = { model, nothing: Buffer.from('0') };
    const entry = (name) => ({ size: bytes[name].length, mime: 'application/octet-stream', chunks: [{ name, offsets: [0, bytes[name].length] }] });
    const resources = { '/models/isnet_quint8': entry('model') };
    for (const ending of ['wasm', 'mjs'])
        resources[`/onnxruntime-web/ort-wasm-simd-threaded.${ending}`] = entry('nothing');
    server = createServer(({ url }, response) => response.end(url === '/resources.json' ? JSON.stringify(resources) : bytes[url.slice(1)])).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    publicPath = `http://127.0.0.1:${server.address().port}/`;
});
after(() => {
    server.close();
    rmSync(folder, { recursive: true });
});

/* The package with another module in place of onnxruntime-web. */
async function packageWith(name, runtime) {
    const text = readFileSync(path.join(modules, '@imgly/background-removal/dist/index.mjs'), 'utf8');
    const changed = text.replace('import("onnxruntime-web")', `import(${JSON.stringify(String(runtime))})`);
    assert.notEqual(changed, text);
    writeFileSync(path.join(folder, `${name}.mjs`), changed);
    return import(pathToFileURL(path.join(folder, `${name}.mjs`)));
}

/* A picture of 3 x 2 digits on a gradient, as RGBA. */
async function picture() {
    const { Program } = await load('index.js');
    const program = await Program.assemble('xcvm 1\ninput x u8[N]\noutput y u8[HxWx3]\n$1 = In(name="x")\n$2 = ImageDecoder($1, pixel_format=RGB)\nOut($2, name="y")\n');
    const { data: digit, dims: [height, width] } = program.createSession().run({ x: read('examples/digits/images/3.png') }).y;
    program.dispose();
    const columns = 96, rows = 64, pixels = new Uint8Array(4 * columns * rows);
    for (let y = 0; y < rows; y++)
        for (let x = 0; x < columns; x++)
            for (let c = 0; c < 4; c++)
                pixels[4 * (y * columns + x) + c] = c === 3 ? 255
                    : 0.5 * digit[3 * ((y % height) * width + (x % width)) + c] + x + (c === 1 ? y : 0);
    return new Blob([pixels], { type: `image/x-rgba8;width=${columns};height=${rows}` });
}

test('imgly/background-removal: the picture with its mask', async () => {
    writeFileSync(path.join(folder, 'theirs-runtime.mjs'), `import * as ort from ${JSON.stringify(String(pathToFileURL(require.resolve('onnxruntime-web'))))};
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
/* The package gives addresses of files that a page downloads. */
export default { InferenceSession: ort.InferenceSession, Tensor: ort.Tensor, env: { wasm: {} } };`);
    const image = await picture(), results = [];
    for (const [name, runtime] of [['ours', pathToFileURL(path.join(packageDir, 'js/onnxruntime-web.js'))], ['theirs', pathToFileURL(path.join(folder, 'theirs-runtime.mjs'))]]) {
        const { removeBackground } = await packageWith(name, runtime), steps = [];
        const blob = await removeBackground(image, { publicPath, model: 'small', output: { format: 'image/x-rgba8' }, progress: (key) => void steps.push(key) });
        assert.equal(blob.type, image.type);
        assert.ok(steps.includes('fetch:/models/isnet_quint8') && steps.includes('compute:encode'));
        results.push(new Uint8Array(await blob.arrayBuffer()));
    }
    const [ours, theirs] = results;
    assert.equal(ours.length, theirs.length);
    const distances = Array.from(theirs, (x, i) => Math.abs(x - ours[i])), mean = distances.reduce((sum, x) => sum + x, 0) / (theirs.length / 4);
    /* The package's model rounds activations to 8 bits in 119 layers. Its mask changes as much, 0.005 of the range on average and 0.97 at
     * most, if its input changes by a millionth in onnxruntime itself. */
    assert.ok(data ? mean < 0.02 * 255 : distances.every((x) => x <= 1), `the mask differs by ${mean} on average`);
    const mask = theirs.filter((_, i) => i % 4 === 3);
    assert.ok(Math.max(...mask) - Math.min(...mask) > 40, 'the mask is the same everywhere');
});
