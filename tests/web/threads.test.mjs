/* Programs with several threads in Node. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import test from 'node:test';
import { linear, load, packageDir } from './support.mjs';

const { initThreads, Program, XcvmError } = await load('index.js');
const { acquireThreads, releaseRuntime } = await load('runtime.js');

const product = `xcvm 1
input x f32[NxK]
input w f32[KxM]
output y f32[NxM]
$1 = In(name="x")
$2 = In(name="w")
$3 = MatMul($1, $2)
$4 = Tanh($3)
Out($4, name="y")
`;
const random = (count) => {
    let state = 1;
    return Float32Array.from({ length: count }, () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648 - 0.5);
};
const inputs = { x: { dims: [200, 300], data: random(60000) }, w: { dims: [300, 400], data: random(120000) } };

test('a worker that fails ends the run, not the process', async () => {
    /* An instance without a program serves the next one. */
    const runtime = await acquireThreads(await initThreads(), 2);
    releaseRuntime(runtime);
    const program = await Program.assemble(product, { threads: 2 }), session = program.createSession();
    runtime.call('xcvm_thread_fail');
    const failure = () => {
        for (let i = 0; i < 1000; i++)
            session.run(inputs);
    };
    assert.throws(failure, (error) => error instanceof XcvmError && error.status === 'INTERNAL');
    program.dispose();
    const again = await Program.assemble(product, { threads: 2 });
    assert.equal(again.createSession().run(inputs).y.data.length, 80000);
    again.dispose();
});

test('threads share instructions, and results are those of one thread', async () => {
    const one = await Program.assemble(product), three = await Program.assemble(product, { threads: 3 });
    assert.equal(one.threads, 1);
    assert.equal(three.threads, 3);
    const expected = one.createSession().run(inputs).y.data, session = three.createSession(), alone = three.createSession({ threads: 1 });
    assert.ok(alone.profile(inputs).instructions.every(({ threads }) => threads === 1));
    let most = 1;
    /* A worker may be late on a busy machine. */
    for (let i = 0; i < 20 || (most < 2 && i < 20000); i++) {
        const { outputs, instructions } = session.profile(inputs);
        assert.deepEqual(outputs.y.data, expected);
        most = Math.max(most, ...instructions.map(({ threads }) => threads));
    }
    assert.ok(most >= 2, 'no worker has run a part');
    assert.deepEqual(alone.run(inputs).y.data, expected);
    /* Memory grows while workers use it. */
    session.run({ x: { dims: [4000, 300], data: new Float32Array(1200000) }, w: inputs.w });
    assert.deepEqual(session.run(inputs).y.data, expected);
    one.dispose();
    three.dispose();
});

test('a session has at most the threads of its program', async () => {
    const warnings = [], { warn } = console;
    console.warn = (text) => warnings.push(text);
    try {
        const program = await Program.assemble(linear);
        for (let i = 0; i < 2; i++)
            assert.equal(program.createSession({ threads: 3 }).run({ x: [1, 2] }).y.data[0], 9.5);
        program.dispose();
    } finally {
        console.warn = warn;
    }
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], /Load the program with \{ threads: 3 \}/);
    for (const threads of [-1, 1.5, '2'])
        await assert.rejects(Program.assemble(linear, { threads }), (error) => error instanceof XcvmError && error.status === 'INVALID_ARGUMENT');
});

test('workers do not keep a process alive', () => {
    const script = `const { Program } = await import(${JSON.stringify(`file://${path.join(packageDir, 'js/index.js')}`)});
        const program = await Program.assemble(${JSON.stringify(linear)}, { threads: 2 });
        console.log(program.createSession().run({ x: [1, 2] }).y.data[0]);`;
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8', timeout: 60000 });
    assert.equal(status, 0);
    assert.equal(stdout, '9.5\n');
});
