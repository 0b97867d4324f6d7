/* The operator cases of tests/ops in WebAssembly. */
import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { WASI } from 'node:wasi';
import { load, root } from './support.mjs';

const { hasRelaxedSimd } = await load('features.js');

/* Before version 21, Node has relaxed SIMD behind a flag, or not at all. Chromium, where other tests run, always has it. */
setFlagsFromString('--experimental-wasm-relaxed-simd');
const programs = ['cases', ...(hasRelaxedSimd() ? ['cases-relaxed'] : [])];

/* Node 20 corrupts its heap when its WASI is called through V8's fast calls and a collection runs meanwhile. */
setFlagsFromString('--no-turbo-fast-api-calls');

/* True for a case that is refused because a size exceeds 32 bits, such as "u8[1x4294967293x1x0] is too large". */
function needs64Bits(line) {
    const [, bits, dims] = line.match(/[a-z](\d+)\[([0-9x]+)\] is too large/) ?? [];
    return dims !== undefined && dims.split('x').map(Number).filter((dim) => dim > 0).reduce((a, b) => a * b, bits / 8) >= 2 ** 31;
}

for (const program of programs) test(`operator cases, ${program}`, async () => {
    const ops = path.join(root, 'tests/ops');
    const names = readdirSync(ops, { withFileTypes: true }).filter((entry) => entry.isDirectory()).flatMap(({ name }) =>
        readdirSync(path.join(ops, name)).filter((file) => file.endsWith('.xcvm')).map((file) => `/ops/${name}/${file}`));
    assert.ok(names.length > 200);
    const log = path.join(mkdtempSync(path.join(tmpdir(), 'xcvm-web-')), 'log'), stdout = openSync(log, 'w');
    const wasi = new WASI({ version: 'preview1', args: ['cases', ...names], preopens: { '/ops': ops }, returnOnExit: true, stdout });
    const module = await WebAssembly.compile(readFileSync(path.join(root, `build/web/web/${program}.wasm`)));
    wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
    closeSync(stdout);
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    const [, run] = lines.pop().match(/^(\d+) cases, \d+ failed$/);
    assert.ok(Number(run) > 4000, `${run} cases`);
    assert.deepEqual(lines.filter((line) => !needs64Bits(line)), []);
});
