/* The compiler: ONNX models to programs. Its module is loaded on demand. */
import { engineOf, nativeEngine } from './engines.js';
import { hasRelaxedSimd } from './features.js';
import { compileModule, describe, readBytes, XcvmError } from './source.js';

let compilerModule = null;

const compilerFile = () => hasRelaxedSimd() ? new URL('./xcvm-compiler-relaxed.wasm', import.meta.url) : new URL('./xcvm-compiler.wasm', import.meta.url);

/** Loads the compiler, once. `source` as for `init`; by default xcvm-compiler-relaxed.wasm or xcvm-compiler.wasm beside this file,
 * or in Node the native engine if it is installed. The module contains the VM too, so Program.load can use it:
 * Program.load(url, { module: await initCompiler() }). */
export async function initCompiler(source, { engine } = {}) {
    const native = source === undefined ? await nativeEngine(engine) : null;
    if (native !== null)
        return native;
    if (source !== undefined || compilerModule === null) {
        const loading = compileModule(source ?? compilerFile());
        loading.catch(() => { if (compilerModule === loading) compilerModule = null; });
        compilerModule = loading;
    }
    return compilerModule;
}

/* Options that are texts, lists of texts, or numbers and booleans. */
const TEXTS = ['loss', 'train', 'weights'], LISTS = ['states', 'wrt', 'defaultInputs'];
const NUMBERS = ['optimization', 'inference', 'backprop', 'evaluate', 'strip', 'flushSubnormals', 'cacheRows', 'timeout', 'memoryLimit'];

/* The options as [name, text, number]. */
function listOptions(options) {
    const list = [];
    for (const [name, value] of Object.entries(options)) {
        if (value === undefined || name === 'diagnostics' || name === 'engine')
            continue;
        if (name === 'dims')
            Object.entries(value).forEach(([dim, size]) => list.push(['dims', dim, Number(size)]));
        else if (TEXTS.includes(name))
            list.push([name, String(value), 0]);
        else if (LISTS.includes(name))
            (Array.isArray(value) ? value : [value]).forEach((text) => list.push([name, String(text), 0]));
        else if (NUMBERS.includes(name))
            list.push([name, '', Number(value)]);
        else
            throw new XcvmError('INVALID_ARGUMENT', `there is no option "${name}"; expected one of ${['dims', 'diagnostics', 'engine', ...TEXTS, ...LISTS, ...NUMBERS].join(', ')}`);
    }
    return list;
}

/** Compiles an ONNX model with a module that `initCompiler` returned. Returns the program's bytes. */
export function compileSync(model, options, module) {
    if (!(model instanceof Uint8Array))
        throw new XcvmError('INVALID_ARGUMENT', `the model is ${describe(model)}; expected a Uint8Array`);
    const list = listOptions(options), result = engineOf(module).compile(model, list, options.diagnostics);
    if (typeof result !== 'number')
        return result;
    const [name, text, number] = list[result];
    throw new XcvmError('INVALID_ARGUMENT', `the option ${name} cannot be ${text === '' ? number : `"${text}"`}`);
}

/** Compiles an ONNX model from a URL, path (Node), Response, Blob, ArrayBuffer or typed array into a program's bytes. */
export async function compile(model, options = {}) {
    const [module, bytes] = await Promise.all([initCompiler(undefined, options), readBytes(model, 'the model')]);
    return compileSync(bytes, options, module);
}
