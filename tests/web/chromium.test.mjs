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
