/* Programs and models that are broken, or want too much: errors, and the next program runs. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { files, linear, load, read, shared } from './support.mjs';

const { Program, XcvmError, init } = await load('index.js');
const { compileSync, initCompiler } = await load('compiler.js');
const module = await init(), compiler = await initCompiler();
const limits = { fuel: 10000, timeout: 300 };

/* An XcvmError that is no trap of the instance. */
function isError(error, what) {
    assert.ok(error instanceof XcvmError, `${what}: ${error.stack}`);
    assert.notEqual(error.status, 'INTERNAL', `${what}: ${error.message}`);
}

function runProgram(bytes, what) {
    let program;
    try {
        program = Program.loadSync(bytes, { module });
        const session = program.createSession({ memoryLimit: 64 << 20 });
        const inputs = {};
        for (const { name, kind, dtype, dims } of program.inputs)
            if (kind === 'tensor' && dtype !== 'str' && dims !== null)
                session.input(name, dims.map((dim) => typeof dim === 'number' ? dim : 2));
        session.run(inputs, limits);
        return true;
    } catch (error) {
        isError(error, what);
        return false;
    } finally {
        program?.dispose();
    }
}

test('programs of the corpus, whole and changed', () => {
    const corpus = [...files('tests/fuzz/corpus/program', '.bin'), ...files(`${shared}/hostile`, '.bin')];
    assert.ok(corpus.length > 10);
    let ran = 0, seed = 1;
    const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    const end = performance.now() + Number(process.env.XCVM_WEB_HOSTILE_MS ?? 4000);
    for (const file of corpus)
        ran += runProgram(read(file), file);
    assert.ok(ran > 0, 'no program of the corpus runs');
    while (performance.now() < end) {
        const file = corpus[random(corpus.length)], bytes = read(file);
        for (let i = 0; i <= random(4); i++)
            bytes[random(bytes.length)] = random(256);
        runProgram(random(8) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes, `${file}, changed`);
    }
});

test('lists that share items are not multiplied', async () => {
    const levels = Array.from({ length: 14 }, (_, i) => `$${i + 2} = SequenceConstruct([${Array(8).fill(`$${i + 1}`)}])`);
    const program = await Program.assemble(['xcvm 1', 'output y seq(f32)', '$1 = SequenceConstruct([f32[] 1, f32[] 1])', ...levels, 'Out($15, name="y")', ''].join('\n'));
    let { y } = program.createSession().run({}, limits);
    for (; y.items; y = y.items.at(-1));
    assert.deepEqual([...y.data], [1]);
    program.dispose();
});

test('hostile programs as text', async () => {
    for (const file of [...files(`${shared}/hostile`, '.xcvm'), ...files(`${shared}/hostile/deadline`, '.xcvm')]) {
        let program;
        try {
            program = await Program.assemble(new TextDecoder().decode(read(file)));
            const session = program.createSession({ memoryLimit: 64 << 20 });
            const begin = performance.now();
            try {
                session.run({}, { timeout: 500, fuel: 1e6 });
            } finally {
                assert.ok(performance.now() - begin < 30000, `${file} goes on behind its deadline`);
            }
        } catch (error) {
            isError(error, file);
        } finally {
            program?.dispose();
        }
    }
});

test('models of the corpus, whole and changed', () => {
    const corpus = [...files('tests/fuzz/corpus/model', '.onnx'), ...files(`${shared}/hostile`, '.onnx')];
    let compiled = 0, seed = 7;
    const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    const compile = (bytes, what) => {
        try {
            compiled += compileSync(bytes, { timeout: 1000, memoryLimit: 256 << 20 }, compiler).length > 0;
        } catch (error) {
            isError(error, what);
        }
    };
    for (const file of corpus)
        compile(read(file), file);
    assert.ok(compiled > 10, `${compiled} models compile`);
    const end = performance.now() + Number(process.env.XCVM_WEB_HOSTILE_MS ?? 4000);
    while (performance.now() < end) {
        const file = corpus[random(corpus.length)], bytes = read(file);
        for (let i = 0; i <= random(4); i++)
            bytes[random(bytes.length)] = random(256);
        compile(bytes, `${file}, changed`);
    }
});

test('texts that are no assembly', async () => {
    for (const text of ['', 'xcvm 1\n$1 = ', 'xcvm 2', '\0', linear.slice(0, 80), 'xcvm 1\nconstant w f32[2] = @"/etc/passwd":0\n'])
        await assert.rejects(Program.assemble(text).then((program) => { program.dispose(); assert.ok(text === ''); throw new XcvmError('OK', ''); }), XcvmError);
});
