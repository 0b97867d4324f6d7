/* The compiler and the drop-in module for onnxruntime-web in Node: models of the tree, with the results that ONNX states. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { engine, load, packageDir, read, shared } from './support.mjs';

const { Program, XcvmError, init } = await load('index.js');
const { compile, initCompiler } = await load('compiler.js');
const ort = await load('onnxruntime-web.js');
if (engine === 'wasm')
    await initCompiler(path.join(packageDir, 'js/xcvm-compiler.wasm'));

/* The elements of a TensorProto of f32 or i64 with raw data: enough for the models' test data. */
function tensorProto(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), dims = [];
    let at = 0, type = 1, raw = null;
    const varint = () => { let value = 0, shift = 1; for (;;) { const byte = bytes[at++]; value += (byte & 127) * shift; shift *= 128; if (byte < 128) return value; } };
    while (at < bytes.length) {
        const key = varint(), field = key >> 3, wire = key & 7;
        if (wire === 0) {
            const value = varint();
            if (field === 1) dims.push(value);
            if (field === 2) type = value;
        } else if (wire === 2) {
            const length = varint();
            if (field === 1) for (const end = at + length; at < end;) dims.push(varint());
            else { if (field === 9 || (field === 4 && raw === null)) raw = bytes.slice(at, at + length); at += length; }
        } else {
            at += wire === 5 ? 4 : 8;
        }
    }
    assert.ok(view && type === 1, 'a tensor of f32');
    return { dims, data: new Float32Array(raw.buffer) };
}

const close = (got, expected, tolerance) => {
    assert.deepEqual([...got.dims], expected.dims);
    const largest = expected.data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    expected.data.forEach((x, i) => assert.ok(Math.abs(x - got.data[i]) <= tolerance * Math.max(1, largest), `element ${i}: ${got.data[i]}, not ${x}`));
};

const models = path.join(shared, 'models');
/* Models with few arithmetic operations: the others take long in one thread. */
const quick = ['mnist_8', 'squeezenet_light', 'super_resolution_10', 'ultraface_320'];
test('models agree with the results that come with them', { skip: !existsSync(models) && `there is no ${models}` }, async () => {
    for (const name of readdirSync(models).filter((name) => process.env.XCVM_WEB_ALL_MODELS || quick.includes(name))) {
        const bytes = read(models, name, 'model.onnx'), session = await ort.InferenceSession.create(bytes);
        for (const set of readdirSync(path.join(models, name)).filter((entry) => entry.startsWith('test_data_set'))) {
            const data = (kind, i) => tensorProto(read(models, name, set, `${kind}_${i}.pb`));
            const feeds = Object.fromEntries(session.inputNames.map((input, i) => {
                const { dims, data: elements } = data('input', i);
                return [input, new ort.Tensor('float32', elements, dims)];
            }));
            const results = await session.run(feeds);
            session.outputNames.forEach((output, i) => close(results[output], data('output', i), 2e-4));
        }
        await session.release();
    }
});

test('compile options', async () => {
    const model = read('tests/fuzz/corpus/model/constant.onnx');
    const program = await compile(model, { optimization: 1, strip: true });
    const loaded = await Program.load(program);
    assert.ok(loaded.createSession().run());
    loaded.dispose();
    const compiled = await Program.compile(model);
    assert.ok(compiled.createSession().run());
    compiled.dispose();
    await assert.rejects(compile(model, { optimum: 1 }), (error) => error instanceof XcvmError && /no option "optimum"/.test(error.message));
    await assert.rejects(compile(model, { weights: 'q3' }), (error) => error instanceof XcvmError && /weights/.test(error.message));
    await assert.rejects(compile(new Uint8Array(10)), XcvmError);
});

test('the drop-in module has the forms of onnxruntime-web', async () => {
    const { Tensor, InferenceSession } = ort;
    assert.deepEqual([...new Tensor('int64', [1, 2n], [2]).data], [1n, 2n]);
    assert.equal(new Tensor(Float32Array.of(1, 2)).type, 'float32');
    assert.equal(new Tensor(['a']).type, 'string');
    assert.equal(new Tensor('bool', [true, false], [2]).data.constructor, Uint8Array);
    assert.deepEqual([...new Tensor('float32', new Float32Array(6), [2, 3]).reshape([3, 2]).dims], [3, 2]);
    assert.throws(() => new Tensor('float32', new Float32Array(6), [2, 2]), /Tensor's size\(4\) does not match data length\(6\)/);
    assert.throws(() => new Tensor('float31', [], [0]), TypeError);
    const buffer = read('tests/fuzz/corpus/model/softmax_axis_0.onnx');
    const padded = new ArrayBuffer(buffer.length + 8);
    new Uint8Array(padded).set(buffer, 8);
    const session = await InferenceSession.create(padded, 8, buffer.length, { executionProviders: ['wasm'] });
    const [input] = session.inputNames, [output] = session.outputNames, { shape, type } = session.inputMetadata[0];
    assert.equal(type, 'float32');
    const x = new Tensor('float32', new Float32Array(shape.reduce((a, b) => a * b, 1)), shape);
    const results = await Promise.all([session.run({ [input]: x }), session.run({ [input]: x }, [output]), session.run({ [input]: x }, { [output]: null })]);
    for (const result of results) {
        assert.ok(result[output] instanceof Tensor);
        assert.ok(Math.abs(result[output].data[0] - 1 / shape[0]) < 1e-6);
        assert.equal(await result[output].getData(), result[output].data);
    }
    await assert.rejects(session.run({}), /is missing in 'feeds'/);
    await assert.rejects(session.run({ [input]: x }, ['none']), RangeError);
    await assert.rejects(session.run(x), TypeError);
    await session.release();
    await assert.rejects(InferenceSession.create('/no/such/model.onnx'), /no\/such\/model/);
    /* A program of XCVM is a model too. */
    const program = await InferenceSession.create(await compile(buffer));
    assert.deepEqual(program.inputNames, [input]);
    await program.release();
});

test('the module of the compiler runs programs', async () => {
    assert.equal(await initCompiler() === await init(), engine === 'native');
});
