/* The package in Node: programs, sessions, values, limits, errors and memory. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { counter, endless, engine, identity, linear, load, read, types } from './support.mjs';

const { Program, Session, Tensor, XcvmError, init } = await load('index.js');
const fails = (status, message) => (error) => error instanceof XcvmError && error.status === status && message.test(error.message) ||
    assert.fail(`expected ${status} ${message}, not ${error.status} ${error.message}`);

test('a program states its inputs and outputs', async () => {
    const program = await Program.assemble(linear);
    assert.deepEqual(program.inputs, [{ name: 'x', kind: 'tensor', dtype: 'f32', dims: ['N', 2] }]);
    assert.deepEqual(program.outputs, [{ name: 'y', kind: 'tensor', dtype: 'f32', dims: ['N', 3] }]);
    assert.equal(program.info.instructions, 4);
    assert.equal(program.engine, engine);
    assert.match(program.disassemble(), /MatMul/);
    assert.equal(program.metadata('none'), null);
    program.dispose();
});

test('values of several forms are inputs', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    const y = Float32Array.of(9.5, 12.5, 15.5);
    for (const x of [Float32Array.of(1, 2), [1, 2], new Tensor('f32', Float32Array.of(1, 2), [1, 2])])
        assert.deepEqual(session.run({ x }).y, new Tensor('f32', y, [1, 3]));
    /* Inputs keep their values. */
    assert.deepEqual(session.run().y.data, y);
    assert.deepEqual(session.run({ x: new Float32Array(6) }).y.dims, [3, 3]);
    program.dispose();
});

test('every element type passes unchanged', async () => {
    for (const dtype of types) {
        const program = await Program.assemble(identity(dtype)), session = program.createSession();
        const bytes = Uint8Array.from({ length: 64 }, (_, i) => i + 1);
        const length = { c64: 8, c128: 8, i4: 2, u4: 2 }[dtype] ?? 4;
        const Type = { f32: Float32Array, i8: Int8Array, u16: Uint16Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
            f16: Uint16Array, bf16: Uint16Array, f64: Float64Array, u32: Uint32Array, u64: BigUint64Array, c64: Float32Array,
            c128: Float64Array }[dtype] ?? Uint8Array;
        const data = dtype === 'str' ? ['a', '', 'grün', '\0b'] : dtype === 'bool' ? Uint8Array.of(0, 1, 1, 0) : new Type(bytes.buffer).slice(0, length);
        const { y } = session.run({ x: new Tensor(dtype, data, [2, 2]) });
        assert.equal(y.dtype, dtype);
        assert.deepEqual(y.data, data);
        program.dispose();
    }
});

test('inputs and outputs in the memory of the VM are not copied', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    const x = session.input('x', [1, 2]);
    x.data.set([1, 2]);
    const first = session.run({}, { copy: false }).y;
    assert.deepEqual([...first.data], [9.5, 12.5, 15.5]);
    x.data[0] = 2;
    const second = session.run({}, { copy: false }).y;
    assert.deepEqual([...second.data], [10.5, 14.5, 18.5]);
    assert.throws(() => first.data, fails('INVALID_ARGUMENT', /run again or is disposed/));
    /* Memory that grows replaces the view and keeps the elements. */
    const other = program.createSession();
    other.run({ x: new Float32Array(8 << 20) });
    assert.deepEqual([...x.data], [2, 2]);
    session.run({ x: [0, 0] });
    assert.throws(() => x.data, fails('INVALID_ARGUMENT', /no longer in memory/));
    program.dispose();
    assert.throws(() => second.data, fails('INVALID_ARGUMENT', /disposed/));
});

test('states are kept, replaced, saved and reset', async () => {
    const program = await Program.assemble(counter), session = program.createSession();
    assert.deepEqual(session.run({ x: [1n, 2n] }).sum.data, BigInt64Array.of(1n, 2n));
    assert.deepEqual(session.run().sum.data, BigInt64Array.of(2n, 4n));
    const saved = session.saveStates();
    session.setState('total', BigInt64Array.of(10n, 20n));
    assert.deepEqual(session.run().sum.data, BigInt64Array.of(11n, 22n));
    session.loadStates(saved);
    assert.deepEqual(session.getState('total').data, BigInt64Array.of(2n, 4n));
    session.resetStates();
    assert.deepEqual(session.getState('total').data, new BigInt64Array(2));
    const sharing = program.createSession({ statesOf: session });
    sharing.run({ x: [5n, 6n] });
    assert.deepEqual(session.getState('total').data, BigInt64Array.of(5n, 6n));
    assert.throws(() => session.loadStates(new Uint8Array(20)), XcvmError);
    program.dispose();
});

test('sequences, optionals and maps', async () => {
    const program = await Program.assemble(`xcvm 1
input s seq(f32)
output n i64[]
output t seq(f32)
$1 = In(name="s")
$2 = SequenceLength($1)
$3 = SequenceInsert($1, f32[1] 7)
Out($2, name="n")
Out($3, name="t")
`);
    const session = program.createSession();
    const items = [new Tensor('f32', Float32Array.of(1, 2), [2]), new Tensor('f32', Float32Array.of(3), [1, 1])];
    const { n, t } = session.run({ s: { kind: 'sequence', items } });
    assert.deepEqual(n.data, BigInt64Array.of(2n));
    assert.deepEqual(t, { kind: 'sequence', items: [...items, new Tensor('f32', Float32Array.of(7), [1])] });
    assert.throws(() => session.run({ s: [1, 2] }), fails('TYPE_MISMATCH', /expected \{ kind: 'sequence'/));
    program.dispose();
});

test('limits end runs: fuel, deadline, cancellation, memory', async () => {
    const program = await Program.assemble(endless), session = program.createSession();
    assert.throws(() => session.run({}, { fuel: 1000 }), fails('OUT_OF_TIME', /fuel/));
    assert.throws(() => session.run({}, { timeout: 30 }), fails('OUT_OF_TIME', /deadline/));
    const cancel = new Int32Array(new SharedArrayBuffer(4));
    Atomics.store(cancel, 0, 1);
    assert.throws(() => session.run({}, { cancel }), fails('CANCELLED', /cancel/));
    const controller = new AbortController();
    controller.abort();
    assert.throws(() => session.run({}, { signal: controller.signal }), { name: 'AbortError' });
    program.dispose();
    const small = await Program.assemble(linear), limited = small.createSession({ memoryLimit: 1 << 20 });
    assert.throws(() => limited.run({ x: new Float32Array(1 << 20) }), fails('OUT_OF_MEMORY', /memory/));
    assert.equal(limited.run({ x: [1, 2] }).y.data[0], 9.5);
    small.dispose();
});

test('another thread cancels a run', async () => {
    const { Worker } = await import('node:worker_threads');
    const program = await Program.assemble(endless), session = program.createSession();
    const cancel = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker('setTimeout(() => Atomics.store(require("worker_threads").workerData, 0, 1), 50)', { eval: true, workerData: cancel });
    assert.throws(() => session.run({}, { cancel, timeout: 60000 }), fails('CANCELLED', /cancel/));
    await worker.terminate();
    program.dispose();
});

test('the profile has every instruction', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    const { outputs, instructions } = session.profile({ x: [1, 2] });
    assert.equal(outputs.y.data[0], 9.5);
    assert.deepEqual(instructions.map(({ instruction }) => instruction), ['In', 'MatMul', 'Add', 'Out']);
    assert.ok(instructions.every(({ milliseconds }) => milliseconds >= 0));
    const values = [];
    session.run({ x: [1, 2] }, { observe: ({ outputs }) => void values.push(...outputs.map(({ register, value }) => [register, [...value.data]])) });
    assert.deepEqual(values, [[1, [1, 2]], [2, [9, 12, 15]], [3, [9.5, 12.5, 15.5]]]);
    assert.throws(() => session.run({}, { observe: () => { throw new Error('mine'); } }), /mine/);
    assert.throws(() => session.run({}, { observe: () => false }), fails('CANCELLED', /observer/));
    assert.equal(session.run().y.data[0], 9.5);
    program.dispose();
});

test('host functions and Print', async () => {
    const program = await Program.assemble(`xcvm 1
input x f32[2]
output y f32[2]
$1 = In(name="x")
$2 = HostCall([$1], function="double", dtypes=[1], ranks=[1])
Print([$2], label="result:")
Out($2, name="y")
`);
    const printed = [];
    const session = program.createSession({
        functions: { double: ({ dtype, data, dims }) => new Tensor(dtype, data.map((x) => 2 * x), dims) }, print: (text) => printed.push(text),
    });
    assert.deepEqual([...session.run({ x: [1, 2] }).y.data], [2, 4]);
    assert.equal(printed.join(''), 'result: f32[2] 2 4\n');
    const failing = program.createSession({ functions: { double: () => { throw new RangeError('no doubles today'); } } });
    assert.throws(() => failing.run({ x: [1, 2] }), /no doubles today/);
    const reentrant = program.createSession({ functions: { double: () => reentrant.run({ x: [1, 2] }) } });
    assert.throws(() => reentrant.run({ x: [1, 2] }), fails('INVALID_ARGUMENT', /the session is running/));
    program.dispose();
});

test('errors say what is wrong', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    assert.throws(() => session.run({ z: [1] }), fails('INVALID_ARGUMENT', /no input "z"; expected one of "x"/));
    assert.throws(() => session.run({ x: new Float64Array(2) }), fails('TYPE_MISMATCH', /input "x": Float64Array is given; expected Float32Array/));
    assert.throws(() => session.run({ x: 'text' }), XcvmError);
    assert.throws(() => session.run({ x: [1, 2, 3] }), fails('SHAPE_MISMATCH', /3 elements are given; expected shape \[N, 2\]/));
    assert.throws(() => session.run({ x: new Tensor('f32', new Float32Array(3), [1, 3]) }), fails('SHAPE_MISMATCH', /x/));
    assert.throws(() => session.run({ x: { data: Float32Array.of(1, 2), dims: [-1, 2] } }), fails('INVALID_ARGUMENT', /shape/));
    assert.throws(() => session.run({ x: { data: Float32Array.of(1, 2), dims: [2 ** 40, 2] } }), fails('SHAPE_MISMATCH', /elements/));
    assert.throws(() => session.run({ x: undefined }), fails('INVALID_ARGUMENT', /no value/));
    assert.throws(() => session.run({ x: () => 1 }), fails('TYPE_MISMATCH', /function/));
    assert.throws(() => session.run(null), fails('INVALID_ARGUMENT', /inputs are null/));
    const sent = Float32Array.of(1, 2);
    structuredClone(sent, { transfer: [sent.buffer] });
    assert.throws(() => session.run({ x: sent }), fails('INVALID_ARGUMENT', /detached/));
    assert.throws(() => new Tensor('f31', new Float32Array(1)), fails('INVALID_ARGUMENT', /f31/));
    assert.equal(session.run({ x: [1, 2] }).y.data[0], 9.5);
    session.dispose();
    session.dispose();
    assert.throws(() => session.run(), fails('INVALID_ARGUMENT', /the session is disposed/));
    program.dispose();
    program.dispose();
    assert.throws(() => program.createSession(), fails('INVALID_ARGUMENT', /the program is disposed/));
    await assert.rejects(Program.load('/no/such/file.bin'), fails('IO', /no\/such\/file\.bin/));
    await assert.rejects(Program.load(7), fails('INVALID_ARGUMENT', /a number/));
    await assert.rejects(Program.load(new Uint8Array(0)), fails('INVALID_PROGRAM', /empty/));
    await assert.rejects(Program.load(read('tests/fuzz/corpus/model/constant.onnx')), fails('INVALID_PROGRAM', /ONNX/i));
});

/* A heap of 4 GB has an end that a test can reach. */
const testHeap = engine === 'wasm' ? test : () => {};
testHeap('memory that cannot be had is an error, and other programs go on', async () => {
    const program = await Program.assemble(`${linear}arena 2000000000\n`.replace('@w)\n', '@w) slot=0+1999999936\n'));
    const other = await Program.assemble(linear), sessions = [];
    /* The heap has room for at most two such arenas. */
    assert.throws(() => { for (let i = 0; i < 3; i++) sessions.push(program.createSession()); }, fails('OUT_OF_MEMORY', /memory/));
    assert.ok(sessions.length > 0);
    assert.equal(sessions[0].run({ x: [1, 2] }).y.data[0], 9.5);
    assert.equal(other.createSession().run({ x: [1, 2] }).y.data[0], 9.5);
    program.dispose();
    const big = await Program.assemble(`xcvm 1
input n i64[1]
output y f32[N]
$1 = In(name="n")
$2 = Expand(f32[] 1, $1)
Out($2, name="y")
`);
    assert.throws(() => big.createSession().run({ n: [2n ** 30n] }), fails('OUT_OF_RANGE', /too large/));
    assert.throws(() => big.createSession().run({ n: [2n ** 40n] }), XcvmError);
    assert.equal(big.createSession().run({ n: [3n] }).y.data.length, 3);
    big.dispose();
    other.dispose();
});

test('a memory limit is an error, and other programs go on', async () => {
    const program = await Program.assemble(`${linear}arena 2000000000\n`.replace('@w)\n', '@w) slot=0+1999999936\n'));
    const other = await Program.assemble(linear);
    assert.throws(() => program.createSession({ memoryLimit: 1 << 20 }), fails('OUT_OF_MEMORY', /memory/));
    const session = other.createSession({ memoryLimit: 1 << 20 });
    assert.throws(() => session.run({ x: new Float32Array(1 << 20) }), fails('OUT_OF_MEMORY', /memory/));
    assert.equal(session.run({ x: [1, 2] }).y.data[0], 9.5);
    program.dispose();
    other.dispose();
});

test('asynchronous runs', async () => {
    const program = await Program.assemble(linear), session = program.createSession();
    const x = Float32Array.of(1, 2), promise = session.runAsync({ x });
    x.fill(0);
    assert.deepEqual([...(await promise).y.data], [9.5, 12.5, 15.5]);
    const both = await Promise.all([program.createSession(), program.createSession()].map((other) => other.runAsync({ x: [0, 1] })));
    assert.deepEqual(both.map(({ y }) => y.data[0]), [4.5, 4.5]);
    const { y } = await session.runAsync({}, { copy: false });
    assert.equal(y.data[0], 9.5);
    await assert.rejects(session.runAsync({ z: 1 }), fails('INVALID_ARGUMENT', /no input "z"/));
    await assert.rejects(session.runAsync(null), fails('INVALID_ARGUMENT', /inputs are null/));
    await assert.rejects(session.runAsync({}, { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await assert.rejects(session.runAsync({}, { observe: () => { throw new Error('mine'); } }), /mine/);
    assert.equal(session.run({ x: [1, 2] }).y.data[0], 9.5);
    program.dispose();
    await assert.rejects(session.runAsync(), fails('INVALID_ARGUMENT', /the session is disposed/));
    const other = await Program.assemble(endless);
    await assert.rejects(other.createSession().runAsync({}, { timeout: 30 }), fails('OUT_OF_TIME', /deadline/));
    other.dispose();
});

test('the engine is chosen by name', async () => {
    const program = await Program.assemble(linear, { engine });
    assert.equal(program.engine, engine);
    program.dispose();
    const wasm = await Program.assemble(linear, { engine: 'wasm' });
    assert.equal(wasm.engine, 'wasm');
    assert.throws(() => wasm.createSession({ statesOf: program.createSession }), fails('INVALID_ARGUMENT', /statesOf/));
    wasm.dispose();
    await assert.rejects(init(undefined, { engine: 'gpu' }), fails('INVALID_ARGUMENT', /"gpu"; expected 'native' or 'wasm'/));
    assert.throws(() => Program.loadSync(new Uint8Array(8), { module: {} }), fails('INVALID_ARGUMENT', /the module is Object/));
});

test('loads, disposals and runs do not grow memory', async () => {
    const module = await init(), times = Number(process.env.XCVM_WEB_LOADS ?? 100), runs = Number(process.env.XCVM_WEB_RUNS ?? 5000);
    const first = await Program.assemble(linear), bytes = first.memoryBytes;
    const text = new TextEncoder().encode(linear);
    assert.ok(text.length > 0);
    const big = await Program.assemble(linear);
    let largest = 0;
    for (let i = 0; i < times; i++) {
        const program = await Program.assemble(linear), session = program.createSession();
        /* Every tenth grows its instance beyond what is kept. */
        session.run({ x: new Float32Array(i % 10 === 0 ? 8 << 20 : 2) });
        largest = Math.max(largest, i % 10 === 0 ? 0 : program.memoryBytes);
        program.dispose();
    }
    assert.ok(largest <= 2 * bytes + (1 << 20), `an instance has grown to ${largest} bytes`);
    const session = big.createSession();
    session.run({ x: [1, 2] });
    const before = big.memoryBytes, live = session.memory.reservedBytes;
    for (let i = 0; i < runs; i++)
        session.run({ x: Float32Array.of(i, 1) });
    assert.equal(big.memoryBytes, before);
    assert.equal(session.memory.reservedBytes, live);
    assert.equal(module instanceof WebAssembly.Module, engine === 'wasm');
    first.dispose();
    big.dispose();
});
