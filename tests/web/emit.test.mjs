/* Networks exported as WebAssembly by `xcvm compile --emit wasm`, in Node: results as onnxruntime-web's, states, random
 * numbers, errors, and files after a failure. XCVM_COMMAND is the command. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { command, counter, read, root, shared } from './support.mjs';

const modules = path.join(root, 'build/node_modules');
const folder = mkdtempSync(path.join(tmpdir(), 'xcvm-emit-'));
after(() => rmSync(folder, { recursive: true }));
const xcvm = (...parameters) => spawnSync(command, parameters, { encoding: 'utf8' });
const at = (name) => path.join(folder, name);

async function emit(name, model, ...options) {
    const { status, stderr } = xcvm('compile', model, '--emit', 'wasm', '-o', at(`${name}.wasm`), ...options);
    assert.equal(status, 0, stderr);
    return import(pathToFileURL(at(`${name}.mjs`)));
}

async function assemble(name, text) {
    writeFileSync(at(`${name}.xcvm`), text);
    assert.equal(xcvm('asm', at(`${name}.xcvm`), '-o', at(`${name}.bin`)).status, 0);
    return emit(name, at(`${name}.bin`));
}

/* Numbers between -1/2 and 1/2. */
function numbers(count) {
    let state = 1;
    return Float32Array.from({ length: count }, () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648 - 0.5);
}

const models = [
    ['digits', path.join(root, 'examples/digits/model.onnx'), ['--dim', 'batch=1'], 90],
    ['mnist_8', path.join(shared, 'models/mnist_8/model.onnx'), [], 60],
    ['squeezenet', path.join(shared, 'models/squeezenet_light/model.onnx'), [], 5100],
    ['lstm', path.join(modules, '@ricky0123/vad-web/dist/silero_vad_legacy.onnx'), ['--dim', 'batch=1', '--dim', 'sequence=1536'], 1100],
];
for (const [name, model, options, kilobytes] of models)
    test(`${name}: results as onnxruntime-web's`, { skip: !existsSync(model) }, async () => {
        const ort = (await import(pathToFileURL(createRequire(path.join(modules, '/')).resolve('onnxruntime-web')))).default;
        ort.env.wasm.numThreads = 1;
        ort.env.logLevel = 'error';
        const { inputs, load } = await emit(name, model, ...options), network = await load(), given = {}, feeds = {};
        for (const { name: input, dtype, dims } of inputs) {
            const count = dims.reduce((a, b) => a * b, 1);
            given[input] = dtype === 'i64' ? BigInt64Array.from({ length: count }, () => 16000n) : numbers(count);
            feeds[input] = new ort.Tensor(dtype === 'i64' ? 'int64' : 'float32', given[input], dims);
        }
        const session = await ort.InferenceSession.create(read(model)), expected = await session.run(feeds), results = network.run(given);
        assert.deepEqual(Object.keys(results), session.outputNames);
        for (const output of session.outputNames) {
            const { data, dims } = results[output], largest = Math.max(...expected[output].data.map(Math.abs));
            assert.deepEqual(dims, [...expected[output].dims]);
            assert.ok(expected[output].data.every((value, i) => Math.abs(value - data[i]) <= 1e-4 * largest), output);
        }
        assert.ok(statSync(at(`${name}.wasm`)).size <= kilobytes * 1000);
        await session.release();
        network.dispose();
    });

test('states, and networks that are independent', async () => {
    const { load, states } = await assemble('counter', counter), a = await load(), b = await load(at('counter.wasm'));
    assert.deepEqual(states.map(({ name, dtype, dims }) => [name, dtype, [...dims]]), [['total', 'i64', [2]]]);
    assert.deepEqual(a.run({ x: [1, 2n] }).sum.data, BigInt64Array.of(1n, 2n));
    assert.deepEqual(a.run().sum.data, BigInt64Array.of(2n, 4n));
    assert.deepEqual(b.run({ x: [5, 5] }).sum.data, BigInt64Array.of(5n, 5n));
    const view = a.run({}, { copy: false }).sum.data;
    a.input('x').data[0] = 10n;
    a.run();
    assert.equal(view[0], 13n);
    a.setState('total', [100, 200]);
    assert.deepEqual(a.getState('total').data, BigInt64Array.of(100n, 200n));
    a.resetStates();
    assert.deepEqual(a.getState('total').data, BigInt64Array.of(0n, 0n));
    for (const [call, status, message] of [
        [() => a.run({ y: [1] }), 'INVALID_ARGUMENT', 'the network has no input "y"; it has "x"'],
        [() => a.run({ x: [1, 2, 3] }), 'SHAPE_MISMATCH', 'input "x": 3 elements are given; expected 2 of shape [2]'],
        [() => a.run({ x: { data: [1, 2], dims: [1, 2] } }), 'SHAPE_MISMATCH', 'input "x": a tensor of shape [1,2] is given; expected shape [2]'],
        [() => a.run({ x: new Float32Array(2) }), 'TYPE_MISMATCH', 'input "x": Float32Array is given; expected BigInt64Array (i64), an array or a tensor'],
        [() => a.run({ x: [1.5, 2] }), 'TYPE_MISMATCH', /^input "x": an element cannot be converted to i64: /],
        [() => a.run({ x: null }), 'TYPE_MISMATCH', /^input "x": null is given/],
        [() => a.setState('none', 1), 'INVALID_ARGUMENT', 'the network has no state "none"; it has "total"'],
    ])
        assert.throws(call, { name: 'XcvmError', status, message });
    assert.deepEqual(a.run({ x: [1, 1] }).sum.data, BigInt64Array.of(1n, 1n), 'the network goes on after errors');
    a.dispose();
    assert.throws(() => a.run(), { status: 'INTERNAL', message: /it is disposed/ });
    assert.deepEqual(b.run().sum.data, BigInt64Array.of(10n, 10n));
});

test('random numbers, indices out of range, loops, and names', async () => {
    const { load } = await assemble('wild', `xcvm 1
input __proto__ i64[]
input x f32[]
output "it's" f32[]
output r f32[4]
constant table f32[3] = 1 2 3
$1 = In(name="__proto__")
$2 = Gather(@table, $1)
$3 = RandomUniform(i64[1] 4)
$4 = In(name="x")
again:
$5 = Greater($4, f32[] 0)
JmpFalse($5, to=done)
Free($5)
Jmp(to=again)
done:
Out($2, name="it's")
Out($3, name="r")
`);
    const network = await load();
    const run = (index, x, options) => network.run(Object.fromEntries([['__proto__', index], ['x', x]]), options);
    const first = run(2, 0);
    assert.equal(first["it's"].data[0], 3);
    assert.ok(first.r.data.every((value) => value >= 0 && value < 1));
    assert.notDeepEqual(run(2, 0).r.data, first.r.data);
    network.setSeed(0);
    assert.deepEqual(run(2, 0).r.data, first.r.data);
    assert.throws(() => run(3, 0), { status: 'OUT_OF_RANGE', message: /instruction \d+, Gather/ });
    assert.throws(() => run(0, 1, { maxSteps: 1000 }), { status: 'OUT_OF_TIME', message: /more steps than max_steps/ });
    assert.equal(run(0, 0)["it's"].data[0], 1);
});

test('the wrong module, and failures that leave no files', async () => {
    const { load } = await import(pathToFileURL(at('counter.mjs')));
    await assert.rejects(load(at('wild.wasm')), { status: 'INVALID_ARGUMENT', message: /must be of one export/ });
    await assert.rejects(load(at('none.wasm')), { status: 'IO', message: /none\.wasm: .*cannot be read/ });
    const before = readdirSync(folder).sort(), kept = readFileSync(at('counter.wasm'));
    const program = at('counter.bin'), target = at('counter.wasm');
    for (const [parameters, code, message] of [
        [['--cc', '/none/clang'], 4, /\/none\/clang cannot compile for WebAssembly: No such file.*apt-get install clang-19 lld-19/],
        [['--cc', 'false'], 4, /false cannot compile for WebAssembly/],
        [['--timeout-ms', '1'], 5, /exceeds the time limit|took more than|time/],
        [['--target', 'x86-64-v3'], 2, /--target has no effect/],
        [['--weights-file', at('w')], 2, /--weights-file has no effect/],
        [['--kernel-library'], 2, /a WebAssembly module does not use/],
    ]) {
        const { status, stderr } = xcvm('compile', program, '--emit', 'wasm', '-o', target, ...parameters);
        assert.equal(status, code, stderr);
        assert.match(stderr, message);
    }
    copyFileSync(program, at('copy.bin'));
    assert.equal(xcvm('compile', program, '--emit', 'wasm', '-o', at('net.bin')).status, 2);
    assert.equal(xcvm('compile', program, '-o', at('net.wasm')).status, 2);
    assert.equal(xcvm('compile', path.join(root, 'examples/digits/model.onnx'), '--emit', 'wasm', '-o', at('net.wasm')).status, 4);
    assert.deepEqual(readdirSync(folder).sort(), [...before, 'copy.bin'].sort());
    assert.deepEqual(readFileSync(at('counter.wasm')), kept);
});
