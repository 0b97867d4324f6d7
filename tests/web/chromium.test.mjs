/* The package in headless Chromium, in a page and in a worker, under a strict content security policy, with and without
 * cross-origin isolation. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { command, linear, packageDir, root } from './support.mjs';

const { chromium } = createRequire(path.join(root, 'build/node_modules/'))('playwright-core');
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm' };
const networks = mkdtempSync(path.join(tmpdir(), 'xcvm-chromium-'));
let server, browser, address, isolated = false;

function answer(request, response) {
    const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    const file = name === '/model.onnx' ? path.join(root, 'tests/fuzz/corpus/model/softmax_axis_0.onnx')
        : name.startsWith('/networks/') ? path.join(networks, name.slice('/networks/'.length))
        : name.startsWith('/package/') ? path.join(packageDir, name.slice('/package/'.length)) : path.join(root, 'tests/web', name);
    const text = name === '/' ? '<!doctype html><title>test</title>' : name === '/linear.xcvm' ? linear : null;
    if (name.includes('..') || (text === null && !existsSync(file))) {
        response.writeHead(404).end();
        return;
    }
    response.writeHead(200, {
        'Content-Type': name === '/' ? 'text/html' : TYPES[path.extname(name)] ?? 'application/octet-stream',
        'Content-Security-Policy': "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self' blob:; " +
            "style-src 'self'; img-src 'self' blob: data:",
        ...(isolated ? { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' } : {}),
    });
    response.end(text ?? readFileSync(file));
}

before(async () => {
    server = createServer(answer).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    address = `http://127.0.0.1:${server.address().port}/`;
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'] });
});
after(async () => {
    await browser?.close();
    server?.close();
    rmSync(networks, { recursive: true });
});

for (const isolation of [false, true])
    test(`a page and a worker, ${isolation ? 'with' : 'without'} cross-origin isolation`, async () => {
        isolated = isolation;
        const page = await (await browser.newContext()).newPage(), refused = [];
        page.on('console', (message) => /Content Security Policy/.test(message.text()) && refused.push(message.text()));
        await page.goto(address);
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
        '-o', path.join(networks, 'digits.wasm')], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    isolated = false;
    const page = await (await browser.newContext()).newPage();
    await page.goto(address);
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

test('the playground: load, run, profile, step, and a model', async () => {
    isolated = false;
    const page = await (await browser.newContext()).newPage(), errors = [];
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(`${address}package/playground/index.html`);
    await page.click('#example');
    await page.waitForSelector('#loaded:not([hidden])');
    assert.equal(await page.locator('#values tr').count(), 2);
    await page.fill('#dynamic', '3');
    await page.click('#run');
    await page.waitForSelector('#profile tr');
    assert.equal(await page.locator('#profile tr').count(), 5);
    assert.match(await page.textContent('#results'), /^y = f32\[3x3\] 0\.\d+ /);
    assert.equal(await page.locator('#graph g').count(), 5);
    await page.click('#next');
    assert.match(await page.textContent('#step'), /^\$2 = MatMul\(\$1, @#0\)\n[^]*\$2 : f32\[3x3\] /);
    await page.click('#profile tr:last-child');
    assert.match(await page.textContent('#position'), /^5 of 5$/);
    const elements = page.locator('#graph g.chosen text');
    assert.equal(await elements.textContent(), 'Out');
    await page.setInputFiles('#file', path.join(root, 'examples/digits/model.onnx'));
    await page.waitForFunction(() => /model\.onnx is loaded/.test(document.getElementById('status').textContent));
    await page.selectOption('#source', 'image');
    await page.setInputFiles('#image', path.join(root, 'examples/digits/images/3.png'));
    await page.click('#run');
    await page.waitForFunction(() => /A run takes/.test(document.getElementById('status').textContent));
    await page.setInputFiles('#file', { name: 'broken.bin', mimeType: 'application/octet-stream', buffer: Buffer.from('not a model') });
    await page.waitForSelector('#status.error');
    assert.deepEqual(errors, []);
    await page.context().close();
});
