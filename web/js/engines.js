/* The engines: WebAssembly, and in Node the native addon if it is installed. */
import { describe, XcvmError } from './source.js';
import { wasmEngine } from './wasm.js';

const inNode = typeof process === 'object' && !!process.versions?.node && process.type !== 'renderer';

/** Returns the native engine if it is chosen and there. `wanted` is 'native', 'wasm' or undefined: then the environment variable
 * XCVM_ENGINE chooses, or else the native engine in Node. Chosen by name, it must be there. */
export async function nativeEngine(wanted) {
    wanted ??= (inNode && process.env.XCVM_ENGINE) || undefined;
    if (wanted !== undefined && wanted !== 'native' && wanted !== 'wasm')
        throw new XcvmError('INVALID_ARGUMENT', `the engine is ${typeof wanted === 'string' ? `"${wanted}"` : describe(wanted)}; expected 'native' or 'wasm'`);
    if (wanted === 'native' && !inNode)
        throw new XcvmError('UNSUPPORTED', "the engine 'native' is an addon for Node; use 'wasm' here");
    if (wanted === 'wasm' || !inNode)
        return null;
    return (await import('#native')).loadNative(wanted === 'native');
}

/** The engine of a module that `init` or `initCompiler` returned. */
export function engineOf(module) {
    if (module instanceof WebAssembly.Module)
        return wasmEngine(module);
    if (module?.engine === 'native')
        return module;
    throw new XcvmError('INVALID_ARGUMENT', `the module is ${describe(module)}; expected the result of init() or initCompiler()`);
}
