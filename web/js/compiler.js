/* The compiler: ONNX models to programs. Its module is loaded on demand. */
import { acquireRuntime, compileModule, describe, readBytes, releaseRuntime, XcvmError } from './runtime.js';

let compilerModule = null;

/** Loads the compiler's module, once. `source` as for `init`; by default xcvm-compiler.wasm beside this file. The module
 * contains the VM too, so Program.load can use it: Program.load(url, { module: await initCompiler() }). */
export function initCompiler(source) {
    if (source !== undefined || compilerModule === null) {
        const loading = compileModule(source ?? new URL('./xcvm-compiler.wasm', import.meta.url));
        loading.catch(() => { if (compilerModule === loading) compilerModule = null; });
        compilerModule = loading;
    }
    return compilerModule;
}

/* Options that are texts, lists of texts, or numbers and booleans. */
const TEXTS = ['loss', 'train', 'weights'], LISTS = ['states', 'wrt', 'defaultInputs'];
const NUMBERS = ['optimization', 'inference', 'backprop', 'evaluate', 'strip', 'flushSubnormals', 'cacheRows', 'timeout', 'memoryLimit'];

function setOptions(runtime, compilation, options) {
    const set = (name, text, number) => {
        const known = runtime.with(name, (at) => runtime.with(String(text), (value) => runtime.call('web_compilation_set', compilation, at, value, number)));
        if (!known)
            throw new XcvmError('INVALID_ARGUMENT', `the option ${name} cannot be ${text === '' ? number : `"${text}"`}`);
    };
    for (const [name, value] of Object.entries(options)) {
        if (value === undefined || name === 'diagnostics')
            continue;
        if (name === 'dims')
            Object.entries(value).forEach(([dim, size]) => set('dims', dim, Number(size)));
        else if (TEXTS.includes(name))
            set(name, value, 0);
        else if (LISTS.includes(name))
            (Array.isArray(value) ? value : [value]).forEach((text) => set(name, text, 0));
        else if (NUMBERS.includes(name))
            set(name, '', Number(value));
        else
            throw new XcvmError('INVALID_ARGUMENT', `there is no option "${name}"; expected one of ${['dims', 'diagnostics', ...TEXTS, ...LISTS, ...NUMBERS].join(', ')}`);
    }
}

/** Compiles an ONNX model with a compiled module. Returns the program's bytes. */
export function compileSync(model, options, module) {
    if (!(model instanceof Uint8Array))
        throw new XcvmError('INVALID_ARGUMENT', `the model is ${describe(model)}; expected a Uint8Array`);
    const runtime = acquireRuntime(module);
    let compilation = 0;
    try {
        compilation = runtime.address('web_compilation_create');
        runtime.onDiagnose = options.diagnostics ? (kind, text) => options.diagnostics(text) : null;
        setOptions(runtime, compilation, options);
        return runtime.with(model, (at, count) => runtime.take(runtime.address('web_compile', compilation, at, count)));
    } finally {
        runtime.onDiagnose = null;
        if (compilation && !runtime.broken)
            runtime.call('web_compilation_destroy', compilation);
        releaseRuntime(runtime);
    }
}

/** Compiles an ONNX model from a URL, path (Node), Response, Blob, ArrayBuffer or typed array into a program's bytes. */
export async function compile(model, options = {}) {
    const [module, bytes] = await Promise.all([initCompiler(), readBytes(model, 'the model')]);
    return compileSync(bytes, options, module);
}
