/* In place of native.js where there is no Node: `imports` of package.json chooses. */
import { XcvmError } from './source.js';

export function loadNative(required) {
    if (required)
        throw new XcvmError('UNSUPPORTED', "the native engine is for Node; use the engine 'wasm'");
    return null;
}
