/* A page that vite builds with the package, in headless Chromium under a strict content security policy. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { linear, packageDir, read, root } from './support.mjs';

const modules = path.join(root, 'build/node_modules'), { chromium } = createRequire(path.join(modules, '/'))('playwright-core');
const { build } = await import(pathToFileURL(path.join(modules, 'vite/dist/node/index.js')));
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const PAGE = `import { Program } from 'xcvm';
import { pixelsToTensor } from 'xcvm/image';
const program = await Program.assemble(${JSON.stringify(linear)});
const { y } = program.createSession().run({ x: pixelsToTensor({ data: Uint8Array.of(1, 2), width: 2, height: 1 }, { order: 'gray', layout: 'HWC', scale: 1 }).data });
const { InferenceSession } = await import('xcvm/onnxruntime-web');
const session = await InferenceSession.create(new URL('/model.onnx', location.href));
document.title = [program.engine, ...y.data, ...session.inputNames].join(' ');
`;

test('a page that vite builds', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'xcvm-bundle-')), dist = path.join(folder, 'dist'), logged = [];
    let server, browser;
    try {
        mkdirSync(path.join(folder, 'node_modules'));
        symlinkSync(packageDir, path.join(folder, 'node_modules/xcvm'));
        writeFileSync(path.join(folder, 'index.html'), '<!doctype html><title>-</title><script type="module" src="/main.js"></script>');
        writeFileSync(path.join(folder, 'main.js'), PAGE);
        const log = (text) => logged.push(text);
        await build({ root: folder, configFile: false, build: { target: 'esnext', modulePreload: { polyfill: false } },
            customLogger: { info() {}, warn: log, warnOnce: log, error: log, clearScreen() {}, hasErrorLogged: () => false, hasWarned: false } });
        const assets = readdirSync(path.join(dist, 'assets'));
        const manifest = JSON.parse(readFileSync(path.join(packageDir, 'package.json'), 'utf8'));
        const named = Object.keys(manifest.exports).filter((name) => name.endsWith('.wasm'));
        assert.ok(named.length >= 3);
        assert.equal(assets.filter((name) => /^xcvm-?[\w-]*\.wasm$/.test(name)).length, named.length, assets.join(' '));
        assert.ok(!assets.some((name) => readFileSync(path.join(dist, 'assets', name)).includes('createRequire')), 'code for Node is in the bundle');
        server = createServer(({ url }, response) => {
            const name = url === '/' ? '/index.html' : url;
            response.writeHead(200, { 'Content-Type': TYPES[path.extname(name)] ?? 'application/octet-stream',
                'Content-Security-Policy': "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'" });
            response.end(name === '/favicon.ico' ? '' : name === '/model.onnx' ? read('tests/fuzz/corpus/model/softmax_axis_0.onnx') : readFileSync(path.join(dist, name)));
        }).listen(0, '127.0.0.1');
        await new Promise((resolve) => server.once('listening', resolve));
        browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
            args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'] });
        const page = await browser.newPage(), errors = [];
        page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
        page.on('pageerror', (error) => errors.push(String(error)));
        await page.goto(`http://127.0.0.1:${server.address().port}/`);
        await page.waitForFunction(() => document.title !== '-', { timeout: 20000 }).catch((error) => errors.push(String(error)));
        assert.deepEqual(errors, []);
        assert.match(await page.title(), /^wasm 9\.5 12\.5 15\.5 \w+$/);
        assert.deepEqual(logged.filter((text) => !/chunks are larger/.test(text)), []);
    } finally {
        await browser?.close();
        server?.close();
        rmSync(folder, { recursive: true });
    }
});
