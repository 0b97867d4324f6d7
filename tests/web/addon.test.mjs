/* The native engine: runs beside JavaScript's thread, memory of the addon that JavaScript sees, workers, and wrong calls. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { counter, endless, linear, load, packageDir } from './support.mjs';

process.env.XCVM_ENGINE = 'native';
const { Program, XcvmError, init } = await load('index.js');
const addon = createRequire(path.join(packageDir, 'js/'))(`@xcvm/${process.platform}-${process.arch}`);
const fails = (status, message) => (error) => error instanceof XcvmError && error.status === status && message.test(error.message) ||
    assert.fail(`expected ${status} ${message}, not ${error.status} ${error.message}`);
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc'), turn = () => new Promise(setImmediate);

test('the event loop continues during a run, which a signal, a flag or a deadline ends', async () => {
    const program = await Program.assemble(endless), session = program.createSession();
    const controller = new AbortController(), run = session.runAsync({}, { signal: controller.signal });
    let turns = 0;
    for (; turns < 50; turns++)
        await turn();
    assert.equal(session.running, true);
    assert.throws(() => session.run(), fails('INVALID_ARGUMENT', /the session is running/));
    assert.throws(() => session.dispose(), fails('INVALID_ARGUMENT', /running/));
    assert.throws(() => program.dispose(), fails('INVALID_ARGUMENT', /running/));
    controller.abort();
    await assert.rejects(run, fails('CANCELLED', /cancel/));
    const cancel = new Int32Array(new SharedArrayBuffer(4)), other = session.runAsync({}, { cancel });
    await turn();
    Atomics.store(cancel, 0, 1);
    await assert.rejects(other, fails('CANCELLED', /cancel/));
    await assert.rejects(session.runAsync({}, { timeout: 20 }), fails('OUT_OF_TIME', /deadline/));
    await assert.rejects(session.runAsync({}, { cancel: new Uint8Array(2) }), fails('INVALID_ARGUMENT', /cancel/));
    program.dispose();
});

test('a cancellation after the end of a run does not end the next run', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    for (let i = 0; i < 200; i++) {
        const controller = new AbortController(), run = session.runAsync({ x: [1, 2] }, { signal: controller.signal });
        if (i % 2)
            await turn();
        controller.abort();
        await run.catch(fails('CANCELLED', /cancel/));
        assert.equal(session.run().y.data[0], 9.5);
    }
    program.dispose();
});

test('sessions that share states run one after the other', async () => {
    const program = await Program.assemble(counter.replace('$1 = In(name="x")', '$1 = In(name="x")\n$9 = Expand(i64[] 1, i64[1] 3000000)\nFree($9)'));
    const session = program.createSession(), sharing = program.createSession({ statesOf: session });
    const run = session.runAsync({ x: [1n, 2n] });
    assert.throws(() => sharing.run({ x: [1n, 1n] }), fails('INVALID_ARGUMENT', /shares its states, is running/));
    assert.throws(() => sharing.getState('total'), fails('INVALID_ARGUMENT', /shares its states, is running/));
    await run;
    sharing.run({ x: [1n, 1n] });
    session.dispose();
    assert.deepEqual(sharing.getState('total').data, BigInt64Array.of(2n, 3n));
    program.dispose();
});

test('views of results end with the next run and with the session', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    const { y } = session.run({ x: [1, 2] }, { copy: false }), view = y.data;
    assert.equal(view[0], 9.5);
    session.run();
    assert.equal(view.length, 0);
    assert.throws(() => y.data, fails('INVALID_ARGUMENT', /run again/));
    const last = session.run({}, { copy: false }).y.data;
    session.dispose();
    assert.equal(last.length, 0);
    program.dispose();
});

test('views of inputs and results keep their memory alive', async () => {
    const program = await Program.assemble(linear), views = [];
    for (let i = 0; i < 100; i++) {
        const session = program.createSession(), x = session.input('x', [1000, 2]);
        x.data.fill(i);
        views.push(x.data, session.run({}, { copy: false }).y.data);
    }
    for (let i = 0; i < 5; i++) {
        collect();
        await turn();
    }
    views.forEach((view, i) => assert.equal(view[0], i % 2 ? 5 * (i >> 1) + 0.5 : i >> 1));
    const session = program.createSession(), x = session.input('x', [1, 2]);
    x.data.set([1, 2]);
    try {
        structuredClone(x.data, { transfer: [x.data.buffer] });
    } catch { /* Node marks memory of addons as not transferable. */ }
    assert.equal(session.run().y.dims[0], 1);
    program.dispose();
});

test('memory of programs and sessions that are forgotten is collected', async () => {
    const bytes = Buffer.from((await Program.assemble(linear)).disassemble());
    assert.ok(bytes.length > 0);
    const cycle = async (count) => {
        for (let i = 0; i < count; i++)
            (await Program.assemble(linear)).createSession().run({ x: new Float32Array(2 << 18) }, { copy: false });
        for (let i = 0; i < 4; i++) {
            collect();
            await turn();
        }
        return process.memoryUsage().rss;
    };
    await cycle(20);
    const before = await cycle(20), after = await cycle(20);
    assert.ok(after < before + (64 << 20), `${before} bytes became ${after}`);
});

test('text of Print arrives after a run beside this thread', async () => {
    const program = await Program.assemble('xcvm 1\ninput x f32[2]\n$1 = In(name="x")\nPrint([$1], label="x:")\n'), printed = [];
    const session = program.createSession({ print: (text) => printed.push(text) });
    await session.runAsync({ x: [1, 2] });
    assert.equal(printed.join(''), 'x: f32[2] 1 2\n');
    const failing = program.createSession({ print: () => { throw new RangeError('no paper'); } });
    await assert.rejects(failing.runAsync({ x: [1, 2] }), /no paper/);
    assert.throws(() => failing.run({ x: [1, 2] }), /no paper/);
    program.dispose();
});

test('workers have addons of their own', async () => {
    const code = `
const { parentPort, workerData } = require('node:worker_threads');
(async () => {
    const { Program } = await import(workerData.url);
    for (let i = 0; i < 20; i++) {
        const program = await Program.assemble(workerData.linear), session = program.createSession({ threads: 1 });
        for (let k = 0; k < 20; k++) {
            session.run({ x: [k, 2] });
            await session.runAsync({ x: [1, 2] });
        }
        if (session.run().y.data[0] !== 9.5 || program.engine !== 'native') throw new Error('wrong');
        if (i % 2) program.dispose();
    }
    parentPort.postMessage('done');
})();`;
    const url = new URL(`file://${path.join(packageDir, 'js/index.js')}`).href;
    const workers = Array.from({ length: 3 }, () => new Worker(code, { eval: true, workerData: { url, linear } }));
    await Promise.all(workers.map(async (worker) => {
        const [message] = await once(worker, 'message');
        assert.equal(message, 'done');
        await worker.terminate();
    }));
});

test('a process ends while sessions run', () => {
    const code = `const { Program } = await import(${JSON.stringify(path.join(packageDir, 'js/index.js'))});
const session = (await Program.assemble(${JSON.stringify(endless)})).createSession();
session.runAsync().catch(() => {});
setTimeout(() => process.exit(7), 20);`;
    const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 20000 });
    assert.equal(status, 7);
});

test('a worker that is terminated cancels its runs', () => {
    const code = `const { once } = await import('node:events');
const { Worker } = await import('node:worker_threads');
const code = ${JSON.stringify(`import { parentPort } from 'node:worker_threads';
const { Program } = await import('file://${path.join(packageDir, 'js/index.js')}');
const program = await Program.assemble(${JSON.stringify(endless)});
for (let i = 0; i < 2; i++)
    program.createSession().runAsync();
parentPort.postMessage('runs');`)};
const worker = new Worker(new URL('data:text/javascript,' + encodeURIComponent(code)));
await once(worker, 'message');
process.exitCode = await worker.terminate() === 1 ? 7 : 8;`;
    const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 30000 });
    assert.equal(status, 7);
});

test('wrong calls of the addon are errors', async () => {
    const engine = await init(), bytes = engine.assemble(linear), program = addon.load(bytes);
    const session = addon.createSession(program, 0, 0, 0, 1, null, [], null, () => {});
    const odd = [undefined, null, 0, -1, 1e300, NaN, '', 'x', true, 10n, Symbol('s'), {}, [], [1], [1, 1, [2], new Uint8Array(3)], [1, 8, [1], new Uint8Array(1), new Uint32Array([9])],
        [1, 8, [2 ** 52, 2 ** 52], new Uint8Array(1), new Uint32Array(0)], [2, [[2, [[1]]]]], new Uint8Array(3), new Float64Array(2), new ArrayBuffer(4), () => {}, program, session, new Proxy({}, {})];
    let seed = 3, errors = 0;
    const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    const names = Object.keys(addon).filter((name) => typeof addon[name] === 'function' && !['initialize', 'destroyProgram', 'destroySession', 'compile'].includes(name));
    for (let i = 0; i < 20000; i++) {
        const name = names[random(names.length)];
        const parameters = Array.from({ length: random(9) }, (_, k) => k === 0 && random(4) ? (random(2) ? session : program) : odd[random(odd.length)]);
        try {
            await addon[name](...parameters);
        } catch (error) {
            errors++;
            assert.ok(error instanceof Error, `${name}: ${String(error)}`);
        }
    }
    assert.ok(errors > 10000, `${errors} errors`);
    addon.setInput(session, 0, [1, 1, [1, 2], new Uint8Array(Float32Array.of(1, 2).buffer)]);
    addon.run(session, 0, 0, null, null, 0, 0);
    assert.equal(new Float32Array(addon.getOutput(session, 0, 0)[3])[0], 9.5);
    addon.destroySession(session);
    addon.destroyProgram(program);
    assert.throws(() => addon.run(session, 0, 0), fails('INVALID_ARGUMENT', /disposed/));
    assert.throws(() => addon.describe(program), fails('INVALID_ARGUMENT', /disposed/));
    assert.throws(() => addon.createSession(program), fails('INVALID_ARGUMENT', /disposed/));
});
