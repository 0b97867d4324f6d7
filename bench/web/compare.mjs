/* compare.mjs [--check] [--chromium] [MODEL...]: runs ONNX models with the npm package (through its module for onnxruntime-web) and
 * with onnxruntime-web, one thread each, and with the package on two threads, runs alternating, in this Node or in headless
 * Chromium. Prints a table: the shortest run, the time to the first result in a new process or page, and in Node the peak of
 * resident memory of the process, above that of a process without an engine. --check only compares the results. A model is a file, or a directory with model.onnx. `make bench-web` fetches the packages. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compare, ENGINES } from './engine.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url)), modules = path.join(root, 'build/node_modules');
const require = createRequire(path.join(modules, '/')), command = process.env.XCVM_COMMAND ?? path.join(root, 'build/release/tools/xcvm');
const checkOnly = process.argv.includes('--check'), inChromium = process.argv.includes('--chromium');
const folder = mkdtempSync(path.join(tmpdir(), 'xcvm-bench-web-'));
const MILLISECONDS = checkOnly ? 0 : 4000, FIRST_RUNS = 3;

function filesOf(argument) {
    const isFolder = statSync(argument).isDirectory(), onnx = path.resolve(isFolder ? path.join(argument, 'model.onnx') : argument);
    const program = path.join(folder, `${path.basename(path.resolve(argument))}.bin`);
    const made = existsSync(command) && spawnSync(command, ['compile', onnx, '-o', program]).status === 0;
    return { name: path.basename(path.resolve(argument)), onnx, program: made ? program : null };
}

/* ---- Node ---- */

const node = {
    urls: { xcvm: String(pathToFileURL(path.join(root, 'build/web/package/js/onnxruntime-web.js'))), ort: String(pathToFileURL(require.resolve('onnxruntime-web'))) },
    compare: (model) => compare(node.urls, model.name, new Uint8Array(readFileSync(model.onnx)), MILLISECONDS),
    first: (engine, model, file) => JSON.parse(execFileSync(process.execPath, ['--no-warnings', fileURLToPath(new URL('first.mjs', import.meta.url)), engine,
        node.urls.xcvm, node.urls.ort, model.name, file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })),
    close: () => {},
};

/* ---- Chromium ---- */

const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };
async function openChromium() {
    const { chromium } = require('playwright-core');
    const server = createServer((request, response) => {
        const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
        const file = name.startsWith('/file/') ? name.slice('/file'.length) : path.join(root, name);
        if (name !== '/' && !existsSync(file)) {
            response.writeHead(404).end();
            return;
        }
        response.writeHead(200, { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp', 'Content-Type': name === '/' ? 'text/html' : TYPES[path.extname(name)] ?? 'application/octet-stream' });
        response.end(name === '/' ? '<!doctype html><title>bench</title>' : readFileSync(file));
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const address = `http://127.0.0.1:${server.address().port}`;
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'] });
    const urls = { xcvm: `${address}/build/web/package/js/onnxruntime-web.js`, ort: `${address}/build/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs` };
    /* A context has a cache of its own. */
    async function evaluate(how, parameters) {
        const context = await browser.newContext();
        try {
            const page = await context.newPage();
            await page.goto(`${address}/`);
            return await page.evaluate(how, { ...parameters, urls, script: `${address}/bench/web/engine.mjs` });
        } finally {
            await context.close();
        }
    }
    return {
        compare: ({ name, onnx }) => evaluate(async ({ urls, script, name, file, milliseconds }) =>
            (await import(script)).compare(urls, name, new Uint8Array(await (await fetch(file)).arrayBuffer()), milliseconds),
        { name, file: `/file${onnx}`, milliseconds: MILLISECONDS }),
        first: (engine, { name }, file) => evaluate(async ({ urls, script, engine, name, file }) => {
            const bytes = new Uint8Array(await (await fetch(file)).arrayBuffer());
            return { first: (await (await import(script)).start(engine, urls, name, bytes)).first };
        }, { engine, name, file: `/file${file}` }),
        close: async () => {
            await browser.close();
            server.close();
        },
    };
}

/* ---- The table ---- */

const mean = (ratios) => ratios.length > 0 ? Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length).toFixed(2) : '-';
const place = inChromium ? await openChromium() : node;
const ratios = { run: [], threads: [], program: [], onnx: [], memory: [] };
const base = inChromium || checkOnly ? 0 : place.first('none', { name: '' }, fileURLToPath(import.meta.url)).memory;
let wrong = 0;
console.log(`In ${inChromium ? 'Chromium' : `Node ${process.version}`}. Times in ms, the shortest of several; memory in MB${inChromium ? '' : `, above the ${base.toFixed(0)} MB of Node itself`}.\n`);
console.log(`| model | xcvm | onnxruntime-web | ratio | xcvm, 2 threads | first result: xcvm, program | xcvm, ONNX | onnxruntime-web |${inChromium ? '' : ' memory: xcvm, program | onnxruntime-web |'} difference |`);
console.log(`|${' --- |'.repeat(inChromium ? 9 : 11)}`);
try {
    for (const model of process.argv.slice(2).filter((argument) => !argument.startsWith('--')).map(filesOf)) {
        const { best: [ours, theirs, both], difference, same } = await place.compare(model), first = [], memory = [];
        for (const engine of checkOnly ? [] : ENGINES) {
            const file = engine === ENGINES[0] ? model.program : model.onnx;
            for (let i = 0; i < FIRST_RUNS && file !== null; i++) {
                const result = await place.first(engine, model, file), at = ENGINES.indexOf(engine);
                first[at] = Math.min(first[at] ?? Infinity, result.first);
                memory[at] = Math.max(memory[at] ?? 0, (result.memory ?? 0) - base);
            }
        }
        wrong += !(difference < 1e-3 && same);
        ratios.run.push(theirs / ours);
        ratios.threads.push(ours / both);
        if (first[0] > 0)
            ratios.program.push(first[2] / first[0]);
        if (first[1] > 0)
            ratios.onnx.push(first[2] / first[1]);
        if (memory[0] > 0)
            ratios.memory.push(memory[2] / memory[0]);
        const cell = (value) => value > 0 ? value.toFixed(0) : '-';
        console.log(`| ${[model.name, ours.toFixed(2), theirs.toFixed(2), (theirs / ours).toFixed(2), both.toFixed(2), cell(first[0]), cell(first[1]), cell(first[2]), ...(inChromium ? [] : [cell(memory[0]), cell(memory[2])]), difference.toExponential(1)].join(' | ')} |`);
    }
} finally {
    await place.close();
    rmSync(folder, { recursive: true });
}
console.log(`\nGeometric means of ${ratios.run.length} models, onnxruntime-web by xcvm: run ${mean(ratios.run)} (least ${Math.min(...ratios.run).toFixed(2)}), ` +
    `first result ${mean(ratios.program)} with a program and ${mean(ratios.onnx)} with ONNX${inChromium ? '' : `, memory ${mean(ratios.memory)}`}.\n` +
    `One thread by two: ${mean(ratios.threads)}. Results of ${wrong} models differ by more than 1e-3, or depend on threads.`);
process.exitCode = wrong ? 1 : 0;
