/* A file server for the package and the tests' pages, under a strict content security policy, and headless Chromium. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { linear, packageDir, root } from './support.mjs';

const { chromium } = createRequire(path.join(root, 'build/node_modules/'))('playwright-core');
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm' };
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self' blob:; " +
    "style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:";

/** Returns { address, browser, networks, isolated, served, close() }. `networks` is a directory that /networks/ shows.
 * Pages are isolated from other origins while `isolated` is true. `served` lists [path, bytes] of each answer. */
export async function openSite(...flags) {
    const networks = mkdtempSync(path.join(tmpdir(), 'xcvm-chromium-'));
    const site = { networks, isolated: false, served: [] };
    const server = createServer((request, response) => {
        const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
        const file = name === '/model.onnx' ? path.join(root, 'tests/fuzz/corpus/model/softmax_axis_0.onnx')
            : name.startsWith('/networks/') ? path.join(networks, name.slice('/networks/'.length))
            : name.startsWith('/package/') ? path.join(packageDir, name.slice('/package/'.length)) : path.join(root, 'tests/web', name);
        const text = name === '/' ? '<!doctype html><title>test</title>' : name === '/linear.xcvm' ? linear : null;
        if (name.includes('..') || (text === null && !existsSync(file))) {
            response.writeHead(404).end();
            return;
        }
        const content = text ?? readFileSync(file);
        site.served.push([name, content.length]);
        response.writeHead(200, {
            'Content-Type': name === '/' ? 'text/html' : TYPES[path.extname(name)] ?? 'application/octet-stream',
            'Content-Security-Policy': POLICY,
            ...(site.isolated ? { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' } : {}),
        });
        response.end(content);
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    site.address = `http://127.0.0.1:${server.address().port}/`;
    site.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', ...flags] });
    site.close = async () => {
        await site.browser.close();
        server.close();
        rmSync(networks, { recursive: true });
    };
    return site;
}
