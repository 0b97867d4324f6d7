/* Worker threads of an instance with shared memory. */
import { hasRelaxedSimd } from './features.js';
import { compileModule, isNode, XcvmError } from './source.js';

const STACK_BYTES = 1 << 20, MOST_THREADS = 64;
const warned = new Set();
function warn(text) {
    if (!warned.has(text))
        console.warn(`xcvm: ${text}`);
    warned.add(text);
}

let threadsModule = null;
let NodeWorker = null;

const threadsFile = () => hasRelaxedSimd() ? new URL('./xcvm-threads-relaxed.wasm', import.meta.url) : new URL('./xcvm-threads.wasm', import.meta.url);

/** Loads the module with threads, once. `source` as for `init`; by default xcvm-threads-relaxed.wasm or xcvm-threads.wasm
 * beside this file. */
export function initThreads(source) {
    if (source !== undefined || threadsModule === null) {
        const loading = compileModule(source ?? threadsFile());
        loading.catch(() => { if (threadsModule === loading) threadsModule = null; });
        threadsModule = loading;
    }
    return threadsModule;
}

/** The number of threads to use if `threads` are asked for: 0 is one per processor, and one thread needs nothing. Warns
 * once if threads are not available. */
export function usableThreads(threads = 1) {
    if (!Number.isInteger(threads) || threads < 0)
        throw new XcvmError('INVALID_ARGUMENT', `threads is ${threads}; expected an integer, 0 for one thread per processor`);
    if (threads === 1)
        return 1;
    if (typeof SharedArrayBuffer !== 'function' || globalThis.crossOriginIsolated === false) {
        warn('threads need a page with cross-origin isolation. Send the headers "Cross-Origin-Opener-Policy: same-origin" and ' +
            '"Cross-Origin-Embedder-Policy: require-corp" with the page. Programs run on one thread.');
        return 1;
    }
    return Math.min(threads || globalThis.navigator?.hardwareConcurrency || 2, MOST_THREADS);
}

/** A memory that instances of the module share. */
export function createSharedMemory(initial) {
    return new WebAssembly.Memory({ initial, maximum: 65536, shared: true });
}

export const warnOfSession = (threads, most) => warn(`a session has at most the threads of its program, ${most}, not ${threads}. ` +
    `Load the program with { threads: ${threads} }.`);

/** Starts workers on the memory of an instance. Returns those that run; if one cannot start, the rest is enough. */
export async function startThreads(runtime, count) {
    let Worker = globalThis.Worker;
    if (isNode)
        Worker = NodeWorker ??= (await import('#worker_threads')).Worker;
    const workers = [];
    const start = (number) => new Promise((resolve, reject) => {
        const worker = new Worker(new URL('./thread.js', import.meta.url), { type: 'module' });
        const failed = (event) => {
            worker.terminate();
            reject(new Error(event.message ?? 'the worker has failed'));
        };
        const started = () => {
            workers.push(worker);
            resolve();
        };
        if (isNode) {
            worker.once('error', failed).once('message', started);
        } else {
            worker.onerror = failed;
            worker.onmessage = started;
        }
        const stack = runtime.allocate(STACK_BYTES) + STACK_BYTES;
        worker.postMessage({ module: runtime.module, memory: runtime.memory, stack, number, origin: performance.timeOrigin });
    });
    /* Numbers of workers must not have gaps, so the first failure ends the rest. */
    const results = await Promise.allSettled(Array.from({ length: count }, (_, i) => start(i + 1)));
    const first = results.findIndex(({ status }) => status === 'rejected');
    if (first >= 0) {
        workers.splice(0).forEach((worker) => worker.terminate());
        warn(`threads cannot be started (${results[first].reason.message}). The page's content security policy must allow workers of the ` +
            'package\'s origin (worker-src), and thread.js must be beside the package\'s files. Programs run on one thread.');
    }
    workers.forEach((worker) => worker.unref?.());
    runtime.call('xcvm_threads_set', workers.length);
    return workers;
}
