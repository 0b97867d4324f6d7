/* The package in headless Chromium, in a page and in a worker, under a strict content security policy, with and without
 * cross-origin isolation. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { openSite } from './site.mjs';
import { command, root } from './support.mjs';

let site;
before(async () => { site = await openSite(); });
after(() => site?.close());

for (const isolation of [false, true])
    test(`a page and a worker, ${isolation ? 'with' : 'without'} cross-origin isolation`, async () => {
        site.isolated = isolation;
        const page = await (await site.browser.newContext()).newPage(), refused = [];
        page.on('console', (message) => /Content Security Policy/.test(message.text()) && refused.push(message.text()));
        await page.goto(site.address);
        assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), isolation);
        assert.equal(await page.evaluate(async () => (await import('/page.mjs')).check().catch((error) => `${error}`)), 'ok');
        assert.equal(await page.evaluate(() => new Promise((resolve) => {
            const worker = new Worker('/worker.mjs', { type: 'module' });
            worker.onmessage = ({ data }) => resolve(data);
            worker.onerror = ({ message }) => resolve(`worker: ${message}`);
        })), 'ok');
        assert.deepEqual(refused, []);
        const modules = site.served.map(([name]) => name).filter((name) => name.endsWith('.wasm'));
        for (const module of ['xcvm-relaxed', 'xcvm-compiler-relaxed'])
            assert.ok(modules.includes(`/package/js/${module}.wasm`), `${modules}`);
        assert.equal(modules.includes('/package/js/xcvm-threads-relaxed.wasm'), isolation);
        await page.context().close();
    });

test('images and sound of a page', async () => {
    site.isolated = false;
    const page = await (await site.browser.newContext()).newPage(), refused = [];
    page.on('console', (message) => /Content Security Policy/.test(message.text()) && refused.push(message.text()));
    await page.goto(site.address);
    assert.deepEqual(await page.evaluate(async () => {
        const { imageToTensor, tensorToImage } = await import('/package/js/image.js'), { audioToTensor } = await import('/package/js/audio.js');
        const media = await (await fetch('/data/media.json')).json(), { width, height } = media, wrong = [];
        const check = (name, got, expected, tolerance = 0) => {
            if (got.length !== expected.length || expected.some((x, i) => Math.abs(x - got[i]) > tolerance))
                wrong.push(name);
        };
        const png = new Blob([Uint8Array.from(media.png)], { type: 'image/png' }), options = { layout: 'HWC', dtype: 'u8' };
        const bitmap = await createImageBitmap(png), canvas = document.createElement('canvas'), element = new Image();
        [canvas.width, canvas.height] = [width, height];
        canvas.getContext('2d').drawImage(bitmap, 0, 0);
        element.src = URL.createObjectURL(png);
        await element.decode();
        const data = canvas.getContext('2d').getImageData(0, 0, width, height);
        for (const [name, image] of Object.entries({ png, bitmap, canvas, element, data, url: element.src, bytes: Uint8Array.from(media.png) }))
            check(name, (await imageToTensor(image, options)).data, media.pixels);
        const normal = await imageToTensor(png, { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] });
        check('normal', normal.data, media.normal_nchw, 1e-6);
        const back = tensorToImage(normal, { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] });
        if (!(back instanceof ImageData))
            wrong.push('ImageData');
        check('back', [...back.data].filter((_, i) => i % 4 !== 3), media.pixels);
        const size = media.sizes.find(({ fit }) => fit === 'cover');
        check('cover', (await imageToTensor(element, { ...options, ...size })).data, size.data);
        const buffer = new AudioBuffer({ length: media.sound.length, sampleRate: 8000 });
        buffer.copyToChannel(Float32Array.from(media.sound), 0);
        check('sound', (await audioToTensor(buffer, { sampleRate: 16000 })).data, media.rates[0].data, 1e-6);
        for (const image of [new Blob(['no image']), new Image(), 7])
            if (await imageToTensor(image).then(() => true, (error) => error.name !== 'XcvmError'))
                wrong.push(`${image}`);
        return wrong;
    }), []);
    assert.deepEqual(refused, []);
    await page.context().close();
});

test('a network exported as WebAssembly', async () => {
    const { status, stderr } = spawnSync(command, ['compile', path.join(root, 'examples/digits/model.onnx'), '--dim', 'batch=1', '--emit', 'wasm',
        '-o', path.join(site.networks, 'digits.wasm')], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    site.isolated = false;
    const page = await (await site.browser.newContext()).newPage();
    await page.goto(site.address);
    const [values, module, bytes] = await page.evaluate(async () => {
        const { inputs, load, outputs } = await import('/networks/digits.mjs'), run = (network) =>
            [...network.run({ [inputs[0].name]: Float32Array.from({ length: inputs[0].dims.reduce((a, b) => a * b, 1) }, (_, i) => i % 7) })[outputs[0].name].data];
        const response = await fetch('/networks/digits.wasm');
        return [run(await load()), run(await load(await WebAssembly.compile(await response.clone().arrayBuffer()))), run(await load(response))];
    });
    assert.equal(values.length, 10);
    assert.ok(values.every(Number.isFinite));
    assert.deepEqual(module, values);
    assert.deepEqual(bytes, values);
    await page.context().close();
});
